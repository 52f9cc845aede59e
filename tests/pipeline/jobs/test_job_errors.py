import pytest
from msgspec import Struct

from tailrace.pipeline.jobs.job_errors import (
    JobError,
    ServerSilentError,
    WrongUsageError,
    checking_usage,
    reason_of_job,
)


class JavaError(Struct):
    text: str
    cause: "JavaError | None" = None

    def getCause(self) -> "JavaError | None":  # noqa: N802 - Java's name
        return self.cause

    def toString(self) -> str:  # noqa: N802 - Java's name
        return self.text


class Py4JError(Exception):
    def __init__(self, java: JavaError) -> None:
        super().__init__("An error occurred while calling o42.start.\n: and a trace")
        self.java_exception = java


class PySparkError(Exception):
    def getMessage(self) -> str:  # noqa: N802 - PySpark's name
        return "\n[TABLE_OR_VIEW_NOT_FOUND] There is no table.\nJVM stacktrace:\n  at org.apache"


def test_the_innermost_cause_says_what_happened() -> None:
    inner = JavaError("java.net.ConnectException: Connection refused\n\tat java.base/sun.nio")
    outer = JavaError("org.apache.spark.SparkException: Job aborted", inner)
    assert reason_of_job(Py4JError(outer)) == "Connection refused"


def test_a_java_error_without_a_message_is_named() -> None:
    assert reason_of_job(Py4JError(JavaError("java.lang.NullPointerException"))) == "NullPointerException"


def test_causes_in_a_circle_end() -> None:
    error = JavaError("a.b.Circle: round")
    error.cause = error
    assert reason_of_job(Py4JError(error)) == "round"


def test_errors_of_python_are_one_line() -> None:
    assert reason_of_job(PySparkError()) == "[TABLE_OR_VIEW_NOT_FOUND] There is no table."
    assert reason_of_job(ValueError("first\nsecond")) == "first"
    assert reason_of_job(ValueError()) == "ValueError"
    assert len(reason_of_job(ValueError("x" * 10_000))) == 500


def test_what_a_check_finds_is_an_error_of_usage_unless_a_server_is_silent() -> None:
    with pytest.raises(WrongUsageError, match="why"), checking_usage():
        raise JobError("why")
    with pytest.raises(ServerSilentError), checking_usage():
        raise ServerSilentError("why")
