"""The faults of the fault run of the trigger engine. After each of them, the log of the function must be complete."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from chaos.records import Place
from pipeline.common_faults import delete_most_records, fail_over, filled, kill_processes_of_executors
from pipeline.running_engine import PLACES, RunningEngine
from pipeline.running_job import LOCAL, SEPARATE, RunningJob
from spu_cluster import SeparateCluster

_PROGRAM_OF_WORKERS = "worker_program"


class FaultyEngine:
    """A trigger that runs on Spark while everything around it fails."""

    def __init__(
        self, cluster: SeparateCluster, directory: Path, disk: Path, chance: random.Random, guarantee: str
    ) -> None:
        self.cluster = cluster
        self.disk = disk
        """Where the checkpoint is."""
        self.engine = RunningEngine(cluster, directory, disk / "checkpoint", guarantee)
        self.chance = chance
        self.starts: dict[Place, int] = {}
        """The offsets before which records were deleted."""

    def started(self, *master: str) -> RunningJob:
        """Starts a run, and returns when it handles events."""
        run = self.engine.run(*master)
        self.engine.wait_for_events(run)
        return run

    def delete_records(self) -> None:
        """Deletes most records of a partition, also those that were not handled."""
        place = self.chance.choice(PLACES)
        self.starts[place] = delete_most_records(self.cluster.bootstrap, place)

    def fail_over(self) -> None:
        fail_over(self.cluster, self.chance.choice(PLACES))


Fault = Callable[[FaultyEngine], None]
"""A fault, which leaves no run behind."""


def kill_the_driver(faulty: FaultyEngine) -> None:
    """Kills the driver. Its tasks may go on for a while."""
    faulty.started(*LOCAL).kill_driver()


def kill_executors(faulty: FaultyEngine) -> None:
    run = faulty.started(*SEPARATE)
    for _ in range(2):
        kill_processes_of_executors(run)
        faulty.engine.wait_for_events(run)
    run.kill_driver()


def kill_workers_of_the_function(faulty: FaultyEngine) -> None:
    run = faulty.started(*LOCAL)
    for each in run.watch():
        with suppress(psutil.NoSuchProcess):
            if any(_PROGRAM_OF_WORKERS in word for word in each.cmdline()):
                each.kill()
    faulty.engine.wait_for_events(run)
    run.kill_driver()


def fail_over_a_leader(faulty: FaultyEngine) -> None:
    run = faulty.started(*LOCAL)
    faulty.fail_over()
    faulty.engine.wait_for_events(run)
    run.kill_driver()


def delete_records(faulty: FaultyEngine) -> None:
    """Deletes records before they are handled, and others while they are read."""
    faulty.delete_records()
    run = faulty.started(*LOCAL)
    faulty.delete_records()
    faulty.engine.wait_for_events(run)
    run.kill_driver()


def restart_the_controller(faulty: FaultyEngine) -> None:
    run = faulty.started(*LOCAL)
    faulty.cluster.kill_controller()
    faulty.cluster.start_controller()
    faulty.engine.wait_for_events(run)
    run.kill_driver()


def fill_the_disk(faulty: FaultyEngine) -> None:
    """Fills the disk of the checkpoint, which ends the run. The next one goes on."""
    run = faulty.started(*LOCAL)
    with filled(faulty.disk) as is_full:
        if is_full:
            assert run.wait() == 1, run.said()
    if run.is_running():
        run.kill_driver()
    faulty.started(*LOCAL).kill_driver()


def all_in_one_run(faulty: FaultyEngine) -> None:
    """Lets the main faults happen to one run, because a JVM takes long to start. At last, its driver is killed."""
    run = faulty.started(*SEPARATE)
    kill_processes_of_executors(run)
    faulty.delete_records()
    faulty.engine.wait_for_events(run)
    faulty.fail_over()
    faulty.engine.wait_for_events(run)
    run.kill_driver()


SHORT: list[Fault] = [all_in_one_run]
ALL: list[Fault] = [
    kill_the_driver,
    kill_executors,
    kill_workers_of_the_function,
    fail_over_a_leader,
    delete_records,
    restart_the_controller,
    fill_the_disk,
]
