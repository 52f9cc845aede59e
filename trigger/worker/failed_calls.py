"""Says what went wrong in a call of a handler: class, message, traceback, and the line of the user's source."""

import inspect
import os
import traceback
from types import TracebackType

from tailrace.trigger.work import Failure, FailureKind

MESSAGE_CHARACTERS_MAX = 4096
TRACEBACK_CHARACTERS_MAX = 16 * 1024
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def refuse_awaitable(result: object, function: str = "the function") -> None:
    """Raises TypeError if a plain function has returned something that still has to be awaited, so that it has not run.
    A decorator around an `async def` may do so."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(f"{function} returned something that must be awaited: define it with async def")


def failure_of(
    error: BaseException, offset: int, end: int, directory: str, kind: FailureKind = FailureKind.RAISED
) -> Failure:
    """Describes an exception. `directory` is where the user's sources are."""
    outer = _of_user(error.__traceback__)
    return Failure(
        kind=kind,
        offset=offset,
        end=end,
        error=type(error).__qualname__,
        message=message_of(error),
        traceback=_traceback(error, outer),
        position=position_of(error, directory),
    )


def message_of(error: BaseException) -> str:
    """Returns the text of an exception, which may fail to have one."""
    try:
        text = str(error)
    except Exception:
        text = "(the exception has no text)"
    return _sendable(text if len(text) <= MESSAGE_CHARACTERS_MAX else f"{text[:MESSAGE_CHARACTERS_MAX]}…")


def position_of(error: BaseException, directory: str) -> str:
    """Returns the innermost place in the user's sources, for example `billing.py:14 in bill`; else the innermost
    place."""
    frames = traceback.extract_tb(_of_user(error.__traceback__))
    if not frames:
        return ""
    theirs = [frame for frame in frames if _is_theirs(frame.filename, directory)]
    frame = (theirs or frames)[-1]
    name = os.path.relpath(frame.filename, directory) if theirs else frame.filename
    return _sendable(f"{name}:{frame.lineno} in {frame.name}")


def _is_theirs(path: str, directory: str) -> bool:
    return path.startswith(os.path.join(directory, "")) and not any(part in path for part in _INSTALLED)


def _of_user(trace: TracebackType | None) -> TracebackType | None:
    """Leaves out the frames of the worker, with which each traceback begins."""
    worker = os.path.dirname(__file__)
    while trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == worker:
        trace = trace.tb_next
    return trace


def _traceback(error: BaseException, trace: TracebackType | None) -> str:
    try:
        text = "".join(traceback.format_exception(type(error), error, trace))
    except Exception:
        return ""
    return _sendable(text if len(text) <= TRACEBACK_CHARACTERS_MAX else f"…{text[-TRACEBACK_CHARACTERS_MAX:]}")


def _sendable(text: str) -> str:
    """Replaces halves of surrogate pairs, which UTF-8 does not have."""
    return text.encode(errors="backslashreplace").decode()
