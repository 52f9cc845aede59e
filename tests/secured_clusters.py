"""Secured clusters in a directory, without their servers."""

from dataclasses import dataclass
from pathlib import Path

from tailrace.cli.serving.secured_cluster import SecuredCluster
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.files import RealFiles

NOW = 1_800_000_000_000


@dataclass
class Clock:
    ms: int = NOW

    def now_ms(self) -> int:
        return self.ms


@dataclass
class Machine:
    """The seams that a secured cluster uses."""

    wall_clock: Clock
    files = RealFiles()
    chance = RandomChance()


def secured(path: Path, clock: Clock | None = None, hosts: tuple[str, ...] = ("localhost",)) -> SecuredCluster:
    cluster = SecuredCluster(str(path), hosts, Machine(clock or Clock()))
    cluster.prepare()
    return cluster
