"""The broker, the topics and the session of the benches of Spark, and what a piece of work takes."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from free_ports import free_port
from msgspec import Struct
from pyspark.sql import SparkSession
from spark.session import start_session

from tailrace.pipeline.segments.query_planning import QueryPlan
from tailrace.pipeline.segments.segment_options import OptionError, read_options
from tailrace.pipeline.segments.segment_source import register

KEYS = 5000
SEGMENT_BYTES = 64 * 2**20
_CONTENT_BYTES = 100_000
_PATIENCE_SECONDS = 120.0
SETTINGS = {
    "spark.driver.memory": "1g",
    # The compiler that people use. Tests take the one that starts faster.
    "spark.driver.extraJavaOptions": "-XX:+UseG1GC",
    "spark.executor.heartbeatInterval": "10s",
}


class Cost(Struct, frozen=True):
    """What a piece of work took."""

    seconds: float
    cpu_seconds: float
    """The processor time of the JVM, of Python workers and of the broker."""
    records: int


@contextmanager
def running_broker(home: Path) -> Iterator[tuple[str, int, Path]]:
    """Runs `tailrace up` with one SPU. Yields its address, its process id and its data directory."""
    server = Server(home, "up", READY_LINE)
    try:
        command = tailrace("up", "--data", str(home / "data"), "--public", f"127.0.0.1:{free_port()}", *FREE_PORTS)
        ready = server.start([*command, "--metrics", "off"])
        yield ready[1], server.pid, home / "data"
    finally:
        server.kill()


def fill(bootstrap: str, data: Path, topic: str, records: int, value_bytes: int, partitions: int) -> None:
    """Produces records with a header each, and waits until their files tell that they are committed."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    wanted = NewTopic(topic, partitions, 1, config={"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"})
    admin.create_topics([wanted])[topic].result(30)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": 2, "queue.buffering.max.messages": 500_000, "linger.ms": 20}
    )
    content = random.Random(1).randbytes(_CONTENT_BYTES)
    for number in range(records):
        start = number * 37 % (_CONTENT_BYTES - value_bytes)
        value, key = content[start : start + value_bytes], b"key-%06d" % (number % KEYS)
        while True:
            try:
                producer.produce(topic, value, key, partition=number % partitions, headers=[("source", b"bench")])
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    if left := producer.flush(60):
        raise SystemExit(f"{left} records are not delivered")
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (found := _committed(data, topic)) < records:
        if time.monotonic() > deadline:
            raise SystemExit(f"the files of {topic} have only {found} of {records} committed records")
        time.sleep(0.2)


def _committed(data: Path, topic: str) -> int:
    """Returns how many records the files say are committed. An SPU notes that every few seconds."""
    options = read_options({"path": str(data), "topic": topic, "includeUnsealed": "true"})
    with suppress(OptionError):
        return sum(each.end for each in QueryPlan(options).extents.values())
    return 0


def session_of(scratch: Path, tasks: int) -> SparkSession:
    scratch.mkdir(parents=True, exist_ok=True)
    session = start_session(scratch, tasks, SETTINGS)
    register(session)
    return session


def cost_of(work: Callable[[], int], broker_pid: int | None = None) -> Cost:
    """Does the work, and returns what it took."""
    before, began = _cpu_seconds(broker_pid), time.monotonic()
    records = work()
    seconds = time.monotonic() - began
    return Cost(seconds, max(0.0, _cpu_seconds(broker_pid) - before), records)


def _cpu_seconds(broker_pid: int | None) -> float:
    """Returns the processor time of this process, of all that it has started, and of the broker.

    The time of a process that has ended counts with its parent.
    """
    total = 0.0
    mine = psutil.Process()
    for each in {mine, *mine.children(recursive=True), *([] if broker_pid is None else [psutil.Process(broker_pid)])}:
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
