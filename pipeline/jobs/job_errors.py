"""Errors of jobs as one sentence for a person, without the tracebacks of two languages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

_JAVA_CLASS = re.compile(r"^(?:[a-z_][\w$]*\.)+([A-Z][\w$]*)(?:: )?")
_REASON_CHARACTERS_MAX = 500


class JobError(Exception):
    """A job that cannot be done; the message is one sentence that says what is wrong and what to do."""


class WrongUsageError(JobError):
    """A job whose arguments are wrong, or name something that it cannot use. Nothing was done yet."""


class ServerSilentError(JobError):
    """A job that cannot be done, because a server does not respond."""


class SessionEndedError(JobError):
    """A job that cannot go on, because its session of Spark has ended."""


@contextmanager
def checking_usage() -> Iterator[None]:
    """Makes errors of the block errors of usage, except that a server is silent. For checks before Spark starts."""
    try:
        yield
    except ServerSilentError:
        raise
    except JobError as error:
        raise WrongUsageError(str(error)) from error


def reason_of_job(error: BaseException) -> str:
    """Returns what Spark says about a failure, in one line.

    A failure of a task arrives inside others. The message of the innermost one says what happened.
    """
    java = getattr(error, "java_exception", None)
    text = _innermost(java) if java is not None else _message(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    found = _JAVA_CLASS.match(first)
    if found is not None:
        rest = first[found.end() :]
        first = rest or found[1]
    return first[:_REASON_CHARACTERS_MAX]


def _message(error: BaseException) -> str:
    """Returns the message of an error of PySpark, whose `getMessage` has no stack trace, or of any other."""
    of_pyspark = getattr(error, "getMessage", None)
    found = of_pyspark() if callable(of_pyspark) else None
    return str(found if found is not None else error)


def _innermost(java: object) -> str:
    """Returns the text of the last cause of a Java exception; causes may form a circle."""
    for _ in range(20):
        cause = java.getCause()  # type: ignore[attr-defined]
        if cause is None:
            break
        java = cause
    return str(java.toString())  # type: ignore[attr-defined]
