import subprocess
import sys

import pytest

import tailrace.trigger

CHECK = """
import sys
import tailrace.trigger
assert "tailrace.trigger.functions.trigger_decorator" not in sys.modules
tailrace.trigger.trigger
assert "tailrace.trigger.functions.trigger_decorator" in sys.modules
assert "trigger" in vars(tailrace.trigger)
"""


def test_a_name_is_imported_when_it_is_first_used() -> None:
    subprocess.run([sys.executable, "-c", CHECK], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'tailrace\.trigger' has no attribute 'nothing'"):
        tailrace.trigger.nothing  # noqa: B018
