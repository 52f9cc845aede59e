"""Runs a list of independent pieces of work as the tasks of one Spark job, and collects what they return.

Executors import this module before it is known whether they have the packages that tasks need. So it imports no
package except PySpark, and that only on the driver.
"""

import pickle
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tailrace.runtime.chance import RandomChance

from .job_errors import JobError, reason_of_job
from .shipped_code import check_required, ship_once
from .spark_session import check_classic, cores_of
from .worker_reuse import drop_zip_finders, freeze_modules

if TYPE_CHECKING:
    from pyspark import InheritableThread
    from pyspark.sql import SparkSession

    from .job_progress import Report

T = TypeVar("T")
R = TypeVar("R")

_POLL_SECONDS = 0.1
"""How often the progress is reported. Nothing waits for this time: the end of the job is noticed at once."""
_SENTENCE = re.compile(r"TaskError: (.+)")


class TaskError(JobError):
    """A task that failed; the message is one sentence."""


def run_tasks(
    spark: "SparkSession",
    tasks: Sequence[T],
    work: Callable[[T], R],
    *,
    name: str,
    report: "Report | None" = None,
    requires: Sequence[str] = (),
) -> list[R]:
    """Does `work` with each task, on the executors, and returns the results in the order of the tasks.

    Spark may run a task twice, or twice at the same time, so `work` must be idempotent. It goes to executors by value
    if it is a closure or a `partial`, and by its name if it is a function of a module of ours. Tasks and results must
    be picklable, and small: all of them are in the memory of the driver. `requires` names packages that the work
    imports beside those that every job needs. Raises JobError with the sentence of the task that failed, and
    SessionEndedError.
    """
    check_classic(spark, name)
    if not tasks:
        return []
    from pyspark import cloudpickle

    cores_of(spark)  # a session that has ended is told as such
    ship_once(spark)
    encoded = [pickle.dumps(task) for task in tasks]
    packed = cloudpickle.dumps(work)  # type: ignore[attr-defined,no-untyped-call,unused-ignore]
    results = _Job(spark, name, encoded, partial(_run_packed, packed, tuple(requires))).results(report)
    return [cast("R", pickle.loads(each)) for each in results]


def _run_packed(packed: bytes, requires: Sequence[str], encoded: bytes) -> bytes:
    """Runs one task on an executor."""
    drop_zip_finders()
    try:
        check_required(*requires)
        work = pickle.loads(packed)
        return pickle.dumps(work(pickle.loads(encoded)))
    except Exception as error:
        raise TaskError(sentence_of(error)) from error
    finally:
        freeze_modules()


def sentence_of(error: Exception) -> str:
    """Returns the message of an error of ours, and of others also their kind, in one line."""
    text = " ".join(str(error).split())
    is_sentence = type(error).__module__.split(".")[0] == "tailrace" or isinstance(error, OSError)
    return text if is_sentence and text else f"{type(error).__name__}: {text}"


def reason_of_tasks(text: str) -> str | None:
    """Returns the sentence of the last task that failed, from everything that Spark says about a job."""
    found = _SENTENCE.findall(text)
    return found[-1].strip() if found else None


class _Job:
    """One Spark job in a job group of its own, which runs in a thread while this one watches."""

    def __init__(
        self, spark: "SparkSession", name: str, encoded: Sequence[bytes], run: Callable[[bytes], bytes]
    ) -> None:
        self._spark = spark
        self._name = name
        self._encoded = encoded
        self._run = run
        self._group = f"tailrace-{RandomChance().uuid().hex}"
        self._results: list[bytes] = []
        self._error: BaseException | None = None

    def results(self, report: "Report | None") -> list[bytes]:
        from pyspark import InheritableThread

        thread = InheritableThread(target=self._collect)
        thread.daemon = True
        thread.start()
        try:
            while thread.is_alive():
                if report is not None:
                    report(self._tasks_done(), len(self._encoded))
                thread.join(_POLL_SECONDS if report is not None else None)
        except BaseException:
            self.cancel(thread)
            raise
        if self._error is not None:
            cores_of(self._spark)
            raise JobError(self._reason(self._error)) from self._error
        if report is not None:
            report(len(self._encoded), len(self._encoded))
        return self._results

    def cancel(self, thread: "InheritableThread") -> None:
        """Ends the job, and waits for its thread. Spark may get the job only after the first request to cancel it."""
        while thread.is_alive():
            with suppress(Exception):  # without a JVM there is nothing to cancel
                self._spark.sparkContext.cancelJobGroup(self._group)
            thread.join(_POLL_SECONDS)

    def _collect(self) -> None:
        context = self._spark.sparkContext
        try:
            context.setJobGroup(self._group, f"tailrace {self._name}", interruptOnCancel=True)
            self._results = context.parallelize(self._encoded, len(self._encoded)).map(self._run).collect()
        except BaseException as error:
            self._error = error

    def _tasks_done(self) -> int:
        from .job_progress import stages_of, task_counts

        with suppress(Exception):  # without a JVM, the end of the job tells what has happened
            done, _ = task_counts(stages_of(self._spark, self._group))
            return min(done, len(self._encoded))
        return 0

    def _reason(self, error: BaseException) -> str:
        java: Any = getattr(error, "java_exception", None)
        return reason_of_tasks(f"{error}\n{java.toString() if java is not None else ''}") or reason_of_job(error)
