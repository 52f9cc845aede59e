"""The function that tests of the commands of triggers run."""

from pathlib import Path

import pytest

FUNCTION = """
from tailrace.trigger import trigger

@trigger("orders", group="billing", replicas=2)
def bill(context, event):
    pass
"""


@pytest.fixture
def function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for variable in ("TAILRACE_SC", "TAILRACE_BOOTSTRAP"):
        monkeypatch.delenv(variable, raising=False)
    path = tmp_path / "billing.py"
    path.write_text(FUNCTION)
    return str(path)
