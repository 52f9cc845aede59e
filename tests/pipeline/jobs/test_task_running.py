import pickle
import threading
from functools import partial

import pytest
from msgspec import Struct

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.jobs.task_running import TaskError, _Job, _run_packed, reason_of_tasks, run_tasks, sentence_of

JAVA_TEXT = """org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times, \
most recent failure: Lost task 1.3 (host executor 1): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "worker.py", line 3, in main
    raise TaskError(sentence_of(error)) from error
tailrace.pipeline.jobs.task_running.TaskError: the disk of /archive is full: free some space, and run again

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""


class Piece(Struct, frozen=True):
    number: int


def doubled(piece: Piece, factor: int = 2) -> Piece:
    if piece.number < 0:
        raise ValueError("no number\nbelow 0")
    return Piece(piece.number * factor)


def test_a_task_and_its_result_travel_as_bytes() -> None:
    packed = pickle.dumps(partial(doubled, factor=3))
    assert pickle.loads(_run_packed(packed, (), pickle.dumps(Piece(7)))) == Piece(21)


def test_a_failed_task_says_why_in_one_line() -> None:
    with pytest.raises(TaskError, match=r"^ValueError: no number below 0$"):
        _run_packed(pickle.dumps(doubled), (), pickle.dumps(Piece(-1)))


def test_a_task_says_first_which_package_is_missing() -> None:
    with pytest.raises(TaskError, match="an executor lacks no_such_package"):
        _run_packed(b"is never read", ("no_such_package",), b"")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (JobError("nothing to read in /data: mount it"), "nothing to read in /data: mount it"),
        (OSError(28, "No space left on device", "/archive/x"), "[Errno 28] No space left on device: '/archive/x'"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_errors_of_others_are_named(error: Exception, sentence: str) -> None:
    assert sentence_of(error) == sentence


def test_the_reason_is_the_sentence_of_the_task() -> None:
    assert reason_of_tasks(JAVA_TEXT) == "the disk of /archive is full: free some space, and run again"
    assert reason_of_tasks("java.lang.OutOfMemoryError: Java heap space") is None


def test_a_job_that_begins_after_it_was_cancelled_is_cancelled_again() -> None:
    cancelled = threading.Semaphore(0)

    class Context:
        def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - PySpark's name
            cancelled.release()

    class Session:
        sparkContext = Context()  # noqa: N815 - PySpark's name

    def run() -> None:
        for _ in range(2):
            cancelled.acquire()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    _Job(Session(), "archive", [], bytes).cancel(thread)  # type: ignore[arg-type]
    assert not thread.is_alive()


class ConnectSession:
    pass


ConnectSession.__module__ = "pyspark.sql.connect.session"


def test_spark_connect_has_no_tasks() -> None:
    with pytest.raises(JobError, match="archive runs its tasks in a classic session of Spark"):
        run_tasks(ConnectSession(), [Piece(1)], doubled, name="archive")  # type: ignore[arg-type]
