from pathlib import Path
from types import CodeType

import pytest

from tailrace.trigger.work import Failure, FailureKind
from tailrace.trigger.worker import failed_calls
from tailrace.trigger.worker.failed_calls import failure_of, message_of, position_of

SOURCE = """
def bill(event):
    check(event)

def check(event):
    raise KeyError(event)
"""


def compiled(path: Path, source: str = SOURCE) -> dict[str, object]:
    code: CodeType = compile(source, str(path), "exec")
    names: dict[str, object] = {}
    exec(code, names)
    return names


def error_of(path: Path, argument: object = "x", source: str = SOURCE) -> BaseException:
    bill = compiled(path, source)["bill"]
    try:
        bill(argument)  # type: ignore[operator]
    except BaseException as error:
        return error
    raise AssertionError


def test_a_failure_says_where_in_the_user_s_source_it_happened(tmp_path: Path) -> None:
    failure = failure_of(error_of(tmp_path / "billing.py"), 7, 9, str(tmp_path))
    assert failure == Failure(FailureKind.RAISED, 7, 9, "KeyError", "'x'", failure.traceback, "billing.py:6 in check")
    assert failure.traceback.startswith("Traceback")
    assert failure.traceback.endswith("KeyError: 'x'\n")


def test_the_innermost_place_of_the_user_counts_and_not_that_of_a_library(tmp_path: Path) -> None:
    library = compiled(tmp_path / "site-packages" / "lib.py")
    user = "def bill(library):\n    library(1)\n"
    error = error_of(tmp_path / "billing.py", library["bill"], user)
    assert position_of(error, str(tmp_path)) == "billing.py:2 in bill"
    assert position_of(error, "/elsewhere") == f"{tmp_path}/site-packages/lib.py:6 in check"
    assert position_of(ValueError("never raised"), str(tmp_path)) == ""


def test_an_exception_may_have_no_text_or_too_much_or_what_utf_8_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert message_of(MuteError()) == "(the exception has no text)"
    assert message_of(ValueError("\udc80")) == "\\udc80"
    monkeypatch.setattr(failed_calls, "MESSAGE_CHARACTERS_MAX", 5)
    monkeypatch.setattr(failed_calls, "TRACEBACK_CHARACTERS_MAX", 5)
    failure = failure_of(error_of(tmp_path / "billing.py", "much too long"), 0, 1, str(tmp_path))
    assert (failure.message, failure.traceback) == ("'much…", "…ong'\n")
