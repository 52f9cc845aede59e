"""Tests what is checked before a session starts; compat_tests/spark/ starts one."""

import pytest
from spark_progress import ReportingSession

from tailrace.pipeline.jobs import spark_session
from tailrace.pipeline.jobs.job_errors import JobError, SessionEndedError
from tailrace.pipeline.jobs.spark_session import (
    check_can_run,
    check_classic,
    close_session,
    cores_of,
    is_connect,
    is_submitted,
)


def test_a_missing_pyspark_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "find_spec", lambda name: None)
    with pytest.raises(JobError, match=r"PySpark is not installed. Install it with `pip install 'tailrace\[spark\]'`"):
        check_can_run(None)


def test_a_missing_java_is_a_sentence_where_java_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JobError, match="Java is not installed, and Spark needs 17 or newer"):
        check_can_run("local[2]")
    check_can_run("sc://spark.example:15002")
    monkeypatch.setenv("JAVA_HOME", "/usr/lib/jvm/default")
    check_can_run(None)


def test_spark_submit_is_recognised() -> None:
    assert is_submitted({"PYSPARK_GATEWAY_PORT": "1"})
    assert is_submitted({"SPARK_REMOTE": "sc://spark.example"})
    assert not is_submitted({})


def test_a_session_that_has_ended_is_a_sentence() -> None:
    class Ended:
        """PySpark raises such errors if the context was stopped, and Py4J others if the JVM was killed."""

        @property
        def sparkContext(self) -> object:  # noqa: N802 - PySpark's name
            raise AttributeError("'NoneType' object has no attribute 'sc'")

        def stop(self) -> None:
            raise ConnectionRefusedError("there is no JVM")

    close_session(Ended())  # type: ignore[arg-type]
    with pytest.raises(SessionEndedError, match="the session of Spark has ended, because it was stopped or its JVM"):
        cores_of(Ended())  # type: ignore[arg-type]


def test_a_session_of_connect_is_recognised_by_its_module() -> None:
    class OfConnect(ReportingSession):
        pass

    OfConnect.__module__ = "pyspark.sql.connect.session"
    assert is_connect(OfConnect())  # type: ignore[arg-type]
    assert not is_connect(ReportingSession())  # type: ignore[arg-type]
    with pytest.raises(JobError, match="audit runs its tasks in a classic session of Spark"):
        check_classic(OfConnect(), "audit")  # type: ignore[arg-type]
    check_classic(ReportingSession(), "audit")  # type: ignore[arg-type]
