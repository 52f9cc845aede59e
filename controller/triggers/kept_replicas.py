"""Keeps the replicas of deployed triggers running on this machine, and restarts those that end.

It decides when to start and stop a replica. The launcher decides what a replica runs in. The process of a replica has
ended before another one with its name starts, because two members of one name would wait for each other.
"""

from collections.abc import Mapping
from typing import Protocol

import trio
from msgspec import Struct, field

from tailrace.controller.spus.supervised_process import RunningProcess, SupervisedProcess
from tailrace.controller.state.actions import KeepReplica
from tailrace.runtime.logs import FilteringBoundLogger

from .bounded_log import LogPart

RECENT_SECONDS = 60.0
"""For how long the end of a process is shown after the process was started again."""


class ReplicaLauncher(Protocol):
    """Starts replicas, and keeps their output."""

    async def launch(self, wanted: KeepReplica) -> RunningProcess:
        """Starts a replica. Raises ProcessEndedError or OSError if it could not be started."""

    def read_log(self, trigger: str, replica: str, after: int, bytes_max: int) -> LogPart | None:
        """Reads a part of the output of a replica. None if there is none."""

    async def forget(self, trigger: str) -> None:
        """Removes the logs of a trigger whose replicas have ended."""

    def last_line(self, trigger: str, replica: str) -> str:
        """Returns the last line that a replica has printed."""


class _Kept(Struct):
    """A replica that runs, or is being stopped."""

    wanted: KeepReplica | None
    """What should run; None if the replica is being stopped."""
    state: str = "starting"
    end: str = ""
    """How the process ended last by itself, with what it printed last."""
    ended_at: float = 0.0
    changed: trio.Event = field(default_factory=trio.Event)
    ended: trio.Event = field(default_factory=trio.Event)


class KeptReplicas:
    """Supervises replicas while `run` is running."""

    def __init__(self, launcher: ReplicaLauncher, logger: FilteringBoundLogger) -> None:
        self._launcher = launcher
        self._logger = logger
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._changed = trio.Event()
        self._to_start: list[tuple[str, str]] = []
        self._to_forget: set[str] = set()
        """Deleted triggers whose logs are still there."""

    async def run(self) -> None:
        """Supervises replicas until it is cancelled; then replicas that still run are ended at once."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._changed.wait()
                self._changed = trio.Event()
                while self._to_start:
                    key = self._to_start.pop()
                    nursery.start_soon(self._supervise, key, self._kept[key])
                running = {trigger for trigger, _ in self._kept}
                for trigger in sorted(self._to_forget - running):
                    self._to_forget.discard(trigger)
                    await self._launcher.forget(trigger)

    def keep(self, wanted: KeepReplica) -> None:
        """Keeps the replica running in this revision from now on. A replica of another revision is stopped before."""
        self._to_forget.discard(wanted.trigger)
        key = (wanted.trigger, wanted.replica)
        kept = self._kept.get(key)
        if kept is None:
            self._kept[key] = _Kept(wanted)
            self._to_start.append(key)
            self._changed.set()
            return
        is_another = kept.wanted is None or kept.wanted.revision != wanted.revision
        kept.wanted = wanted
        if is_another:
            kept.changed.set()

    def drop(self, trigger: str, replica: str) -> None:
        """Stops the replica cleanly, if it runs."""
        kept = self._kept.get((trigger, replica))
        if kept is not None:
            kept.wanted = None
            kept.changed.set()

    def forget(self, trigger: str) -> None:
        """Removes the logs of a deleted trigger when its replicas have ended."""
        self._to_forget.add(trigger)
        self._changed.set()

    def states(self, trigger: str) -> Mapping[str, str]:
        """Returns what is known of the process of each replica, in words for people."""
        now = trio.current_time()
        return {replica: _state(kept, now) for (name, replica), kept in sorted(self._kept.items()) if name == trigger}

    def read_log(self, trigger: str, replica: str, after: int, bytes_max: int) -> LogPart | None:
        """Reads a part of the output of a replica. None if there is none."""
        return self._launcher.read_log(trigger, replica, after, bytes_max)

    async def stop(self) -> None:
        """Stops all replicas cleanly and concurrently."""
        stopping = list(self._kept.items())
        for key, _ in stopping:
            self.drop(*key)
        for _, kept in stopping:
            await kept.ended.wait()

    async def _supervise(self, key: tuple[str, str], kept: _Kept) -> None:
        try:
            while kept.wanted is not None:
                kept.changed = trio.Event()
                await self._run(kept, kept.wanted)
        finally:
            del self._kept[key]
            kept.ended.set()
            self._changed.set()

    async def _run(self, kept: _Kept, wanted: KeepReplica) -> None:
        """Keeps one revision of a replica running until something else is wanted."""
        logger = self._logger.bind(trigger=wanted.trigger, replica=wanted.replica)

        async def launch() -> RunningProcess:
            kept.state = "starting"
            running = await self._launcher.launch(kept.wanted or wanted)
            kept.state = "running"
            return running

        def on_ended(status: str, pause_seconds: float) -> None:
            last = self._launcher.last_line(wanted.trigger, wanted.replica)
            kept.state, kept.ended_at = "waiting", trio.current_time()
            kept.end = f"after it ended with {status}{f': {last}' if last else ''}"
            logger.warning("replica_ended", status=status, last_line=last)

        process = SupervisedProcess(launch, on_ended)
        logger.info("replica_started", revision=wanted.revision)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.run)
            await kept.changed.wait()
            kept.state = "stopping"
            await process.stop()
        logger.info("replica_stopped", revision=wanted.revision)


def _state(kept: _Kept, now: float) -> str:
    """Says what a process does, and how it ended if that was not long ago."""
    return f"{kept.state} {kept.end}" if kept.end and now - kept.ended_at < RECENT_SECONDS else kept.state
