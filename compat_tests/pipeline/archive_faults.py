"""The faults of the fault run of the archive. After each of them, committed records must still be archived once."""

import random
from collections.abc import Callable
from pathlib import Path

from chaos.records import Place
from cluster import tailrace
from pipeline.common_faults import delete_most_records, fail_over, filled, kill_processes_of_executors
from pipeline.running_archive import ArchiveFiles, compact
from pipeline.running_job import LOCAL, SEPARATE, RunningJob
from spu_cluster import SeparateCluster

TOPIC, PARTITIONS = "orders", 3
PLACES: list[Place] = [(TOPIC, partition) for partition in range(PARTITIONS)]
AGAIN = ("--every", "1s")
COMMITS_AFTER_FAULT = 2
"""How many commits a run makes after a fault that does not end it."""


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
        self.runs: list[RunningJob] = []

    def run(self, *words: str) -> RunningJob:
        """Starts a run that goes on until it is killed, or with `words` another one."""
        rounds = words if words else (*LOCAL, *AGAIN)
        where = (TOPIC, "--to", str(self.root), "--bootstrap", self.cluster.bootstrap, "--chunk-mib", "1")
        started = RunningJob(self._directory, "archive", tailrace("pipeline", "archive", "run", *where, *rounds))
        self.runs.append(started)
        return started

    def end(self) -> None:
        for each in self.runs:
            each.end()

    def wait_for_commits(self, run: RunningJob, count: int = COMMITS_AFTER_FAULT) -> None:
        before = len(self.files.heads())
        assert run.wait_for(lambda: len(self.files.heads()) >= before + count, f"{count} more commits"), run.said()

    def wait_for_moment(self, run: RunningJob) -> str:
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
        self.starts[place] = delete_most_records(self.cluster.bootstrap, place)

    def fail_over(self) -> None:
        """Kills the leader of a partition, and waits for another one."""
        fail_over(self.cluster, self.chance.choice(PLACES))

    def fill_the_disk(self, run: RunningJob) -> None:
        """Fills the disk of the archive until a round has failed, if the archive has a disk of its own."""
        with filled(self.root.parent) as is_full:
            if is_full:
                run.wait_until_said("is full")


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
    kill_processes_of_executors(run)
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
    kill_processes_of_executors(run)
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
