"""Faults for any job on Spark: a leader that fails over, deleted records, executors that are killed, a full disk."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from chaos.records import Place
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from node_cluster import Watcher
from pipeline.running_job import RunningJob
from spu_cluster import SeparateCluster
from waiting import wait_until

DISK_MIB = 256
_FREE_BYTES = 64 * 1024
"""How much a full disk has left."""
_KEPT_RECORDS = 10


def fail_over(cluster: SeparateCluster, place: Place) -> None:
    """Kills the leader of a partition, and returns when another one leads and all copies are in sync again."""
    watcher = Watcher(cluster.bootstrap)
    leader = watcher.leader(*place)
    cluster.kill_node(leader)
    watcher.leader_other_than(leader, *place)
    cluster.start_node(leader)
    watcher.wait_until_in_sync(*place)


def delete_most_records(bootstrap: str, place: Place) -> int:
    """Deletes all but the last records of a partition, and returns the first offset that is left."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    (asked,) = admin.list_offsets({TopicPartition(*place): OffsetSpec.latest()}, request_timeout=20).values()  # type: ignore[no-untyped-call]
    before = max(0, asked.result(20).offset - _KEPT_RECORDS)
    (done,) = admin.delete_records([TopicPartition(*place, before)], request_timeout=20).values()
    done.result(20)
    return before


def kill_processes_of_executors(run: RunningJob) -> None:
    """Kills the JVM of an executor, and all processes that run tasks. Spark starts others, and tasks run again."""
    for each in (*run.executors()[:1], *run.python_workers()):
        with suppress(psutil.NoSuchProcess):
            each.kill()


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """Yields a directory on a disk of its own, if this process may mount one, and otherwise any directory."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(directory)]
    is_mounted = subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield directory
    finally:
        if is_mounted:
            wait_until(lambda: subprocess.run(["umount", str(directory)], capture_output=True).returncode == 0, 20)


@contextmanager
def filled(disk: Path) -> Iterator[bool]:
    """Fills a disk for a while. Yields False, and does nothing, if the directory has no disk of its own."""
    if not disk.is_mount():
        print("the disk is not filled, because this process cannot mount one")
        yield False
        return
    filler = disk / "filler"
    with filler.open("wb") as file, suppress(OSError):
        while (free := shutil.disk_usage(disk).free) > _FREE_BYTES:
            file.write(bytes(min(2**20, free - _FREE_BYTES)))
            file.flush()
    try:
        yield True
    finally:
        filler.unlink()
