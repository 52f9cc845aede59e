"""The faults of the fault run of the archive. After each of them, committed records must still be archived once."""

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from chaos.records import Place
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from node_cluster import Watcher
from pipeline.running_archive import LOCAL, SEPARATE, ArchiveFiles, Archiving, compact
from spu_cluster import SeparateCluster
from waiting import wait_until

TOPIC, PARTITIONS = "orders", 3
PLACES: list[Place] = [(TOPIC, partition) for partition in range(PARTITIONS)]
AGAIN = ("--every", "1s")
DISK_MIB = 256
COMMITS_AFTER_FAULT = 2
"""How many commits a run makes after a fault that does not end it."""
_FREE_BYTES = 64 * 1024
"""How much a full disk has left."""


class Faulty:
    """An archive that is made while everything around it fails."""

    def __init__(self, cluster: SeparateCluster, directory: Path, root: Path, chance: random.Random) -> None:
        self.cluster = cluster
        self.root = root
        self.files = ArchiveFiles(root)
        self.chance = chance
        self.starts: dict[Place, int] = {}
        """The offsets before which records were deleted."""
        self._directory = directory
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        self.runs: list[Archiving] = []

    def run(self, *words: str) -> Archiving:
        """Starts a run that goes on until it is killed, or with `words` another one."""
        rounds = words if words else (*LOCAL, *AGAIN)
        where = (TOPIC, "--to", str(self.root), "--bootstrap", self.cluster.bootstrap, "--chunk-mib", "1")
        started = Archiving(self._directory, (*where, *rounds))
        self.runs.append(started)
        return started

    def end(self) -> None:
        for each in self.runs:
            each.end()

    def wait_for_commits(self, run: Archiving, count: int = COMMITS_AFTER_FAULT) -> None:
        before = len(self.files.heads())
        assert run.wait_for(lambda: len(self.files.heads()) >= before + count, f"{count} more commits"), run.said()

    def wait_for_moment(self, run: Archiving) -> str:
        """Waits for a moment of a commit that chance chooses, and returns what it is."""
        heads, parquet, commits = self.files.heads(), self.files.parquet(), self.files.commits()
        moments: dict[str, Callable[[], object]] = {
            "a file is being written": self.files.temporary,
            "a file is written and does not count": lambda: self.files.parquet() - parquet,
            "a commit is written and is not the head": lambda: self.files.commits() - commits,
            "a commit is the head": lambda: self.files.heads() - heads,
        }
        name = self.chance.choice(sorted(moments))
        assert run.wait_for(moments[name], name), run.said()
        return name

    def delete_records(self) -> None:
        """Deletes most records of a partition, also those that were not archived."""
        place = self.chance.choice(PLACES)
        partition = TopicPartition(*place)
        (asked,) = self._admin.list_offsets({partition: OffsetSpec.latest()}, request_timeout=20).values()  # type: ignore[no-untyped-call]
        before = max(0, asked.result(20).offset - 10)
        (done,) = self._admin.delete_records([TopicPartition(*place, before)], request_timeout=20).values()
        done.result(20)
        self.starts[place] = before

    def fail_over(self) -> None:
        """Kills the leader of a partition, and waits for another one."""
        watcher = Watcher(self.cluster.bootstrap)
        partition = self.chance.randrange(PARTITIONS)
        leader = watcher.leader(TOPIC, partition)
        self.cluster.kill_node(leader)
        watcher.leader_other_than(leader, TOPIC, partition)
        self.cluster.start_node(leader)
        watcher.wait_until_in_sync(TOPIC, partition)

    def kill_processes_of_executors(self, run: Archiving) -> None:
        """Kills the JVM of an executor, and a process that runs tasks. Spark starts others, and tasks run again."""
        for each in (*run.executors()[:1], *run.python_workers()[:1]):
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def fill_the_disk(self, run: Archiving) -> None:
        """Fills the disk of the archive until a round has failed, if the archive has a disk of its own."""
        disk = self.root.parent
        if not disk.is_mount():
            print("the disk is not filled, because this process cannot mount one")
            return
        filler = disk / "filler"
        with filler.open("wb") as file, suppress(OSError):
            while (free := shutil.disk_usage(disk).free) > _FREE_BYTES:
                file.write(bytes(min(2**20, free - _FREE_BYTES)))
                file.flush()
        run.wait_until_said("is full")
        filler.unlink()


Fault = Callable[[Faulty], str]
"""A fault, which leaves no run behind. It returns at which moment it happened."""


def kill_the_driver(faulty: Faulty) -> str:
    """Kills the driver at a moment of a commit. Its tasks may go on for a while."""
    run = faulty.run()
    moment = faulty.wait_for_moment(run)
    run.kill_driver()
    return moment


def kill_executors(faulty: Faulty) -> str:
    run = faulty.run(*SEPARATE, *AGAIN)
    moment = faulty.wait_for_moment(run)
    faulty.kill_processes_of_executors(run)
    faulty.wait_for_commits(run)
    run.kill_driver()
    return moment


def fail_over_a_leader(faulty: Faulty) -> str:
    run = faulty.run()
    moment = faulty.wait_for_moment(run)
    faulty.fail_over()
    faulty.wait_for_commits(run)
    run.kill_driver()
    return moment


def delete_records(faulty: Faulty) -> str:
    """Deletes records before they are archived, and others while they are read."""
    faulty.delete_records()
    run = faulty.run()
    moment = faulty.wait_for_moment(run)
    faulty.delete_records()
    faulty.wait_for_commits(run)
    run.kill_driver()
    return moment


def fill_the_disk(faulty: Faulty) -> str:
    run = faulty.run()
    moment = faulty.wait_for_moment(run)
    faulty.fill_the_disk(run)
    faulty.wait_for_commits(run)
    run.kill_driver()
    return moment


def run_two_drivers(faulty: Faulty) -> str:
    """Runs two drivers at once, and kills one and then the other."""
    one, other = faulty.run(), faulty.run()
    faulty.wait_for_commits(one, 4)
    moment = faulty.wait_for_moment(other)
    one.kill_driver()
    faulty.wait_for_commits(other)
    other.kill_driver()
    return moment


def compact_meanwhile(faulty: Faulty) -> str:
    run = faulty.run()
    faulty.wait_for_commits(run)
    said = compact(faulty.root)
    faulty.wait_for_commits(run)
    run.kill_driver()
    return said.splitlines()[-1]


def all_in_one_run(faulty: Faulty) -> str:
    """Lets the main faults happen to one run, because a JVM takes long to start. At last, its driver is killed."""
    run = faulty.run(*SEPARATE, *AGAIN)
    moments = [faulty.wait_for_moment(run)]
    faulty.kill_processes_of_executors(run)
    faulty.delete_records()
    faulty.wait_for_commits(run)
    faulty.fail_over()
    faulty.wait_for_commits(run, 1)
    faulty.fill_the_disk(run)
    faulty.wait_for_commits(run, 1)
    moments.append(faulty.wait_for_moment(run))
    run.kill_driver()
    return "; ".join(moments)


SHORT: list[Fault] = [all_in_one_run]
ALL: list[Fault] = [
    kill_the_driver,
    kill_executors,
    fail_over_a_leader,
    delete_records,
    fill_the_disk,
    run_two_drivers,
    compact_meanwhile,
]


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
