"""Repairs logs with flipped bits that cannot be opened or read, from other SPUs, and returns them to their owner.

When an SPU starts, it does not know other SPUs yet, and these may start later. So the repair is retried with growing
pauses. Meanwhile the replica counts as one that did not open. When its log is readable, it is closed and opened again.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import trio
from msgspec import Struct, field

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_log import DamagedLogError, ReplicaLog
from tailrace.runtime.descriptors import is_out_of_files
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.log.log import Log

from .closed_replicas import ClosedReplicas

PAUSE_SECONDS_MIN = 0.1
"""The first pause. By then most other SPUs are known."""
PAUSE_SECONDS_MAX = 60.0


class _Unreadable(Struct):
    """A log that is being repaired."""

    replica: Replica
    """The replica with this log, which takes no part in replication."""
    was_clean: bool
    """Whether the log was closed cleanly before it was opened."""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    closed: trio.Event = field(default_factory=trio.Event)


class LogOwner(Protocol):
    """Opens logs, and hands those that it cannot read to `UnreadableLogs`."""

    async def on_readable(self, key: ReplicaKey) -> None:
        """Opens the log, if it still belongs on this SPU."""

    async def on_unreadable(self, replica: Replica) -> None:
        """Closes a replica that is in use, and hands over its log."""

    def on_log_closed(self, log: Log) -> None:
        """Notes that this log is closed."""


class UnreadableLogs:
    """All logs of this SPU that are being repaired."""

    def __init__(
        self,
        nursery: trio.Nursery,
        repair: Callable[[Replica, int], Awaitable[bool]],
        closed: ClosedReplicas,
        owner: LogOwner,
    ) -> None:
        """`repair` repairs damage soon after an offset from other SPUs. It returns whether it has truncated the rest of
        the log, because no other store can have it.
        """
        self._nursery = nursery
        self._repair = repair
        self._closed = closed
        self._by_key: dict[ReplicaKey, _Unreadable] = {}
        self._readable: dict[ReplicaKey, tuple[float, float]] = {}
        """The logs that were returned lately: the Trio time, and the pause before their last repair."""
        self._owner = owner

    def add(self, replica: Replica, damaged_from: int, *, was_clean: bool) -> None:
        """Takes a log over, until it is repaired or given back.

        `was_clean` says whether the log was closed cleanly before. The fact is kept for its next opening:
        nothing is appended meanwhile, and recovery must not truncate the log where it is damaged.
        """
        unreadable = self._by_key[replica.key] = _Unreadable(replica, was_clean)
        self._nursery.start_soon(self._run_repair, unreadable, damaged_from)

    def add_soon(self, replica: Replica) -> None:
        """Takes over the log of a replica in use, in another task, because the caller is still using the replica."""
        self._nursery.start_soon(self._owner.on_unreadable, replica)

    async def give_back(self, key: ReplicaKey) -> None:
        """Stops the repair of a log, if it is being repaired, and waits until the log is closed."""
        unreadable = self._by_key.get(key)
        if unreadable is not None:
            unreadable.scope.cancel()
            await unreadable.closed.wait()

    async def _run_repair(self, unreadable: _Unreadable, damaged_from: int) -> None:
        replica, is_readable = unreadable.replica, False
        pause = self._pause_before(replica.key)
        try:
            with unreadable.scope:
                await trio.sleep(pause)
                is_readable = await self._make_readable(unreadable, damaged_from)
        finally:
            with trio.CancelScope(shield=True), suppress(OSError):
                await replica.log.close(clean=False)
            self._owner.on_log_closed(replica.log)
            if is_readable:
                self._readable[replica.key] = trio.current_time(), pause
            if unreadable.was_clean:
                self._closed.clean.add(replica.key)
            del self._by_key[replica.key]
            unreadable.closed.set()
        if is_readable:
            await self._owner.on_readable(replica.key)

    def _pause_before(self, key: ReplicaKey) -> float:
        """Returns the pause before a repair. It grows if the log was repaired lately, and the damage was not found."""
        since = trio.current_time() - PAUSE_SECONDS_MAX
        self._readable = {each: opened for each, opened in self._readable.items() if opened[0] > since}
        opened = self._readable.get(key)
        return 0 if opened is None else min(max(2 * opened[1], PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)

    async def _make_readable(self, unreadable: _Unreadable, damaged_from: int) -> bool:
        """Repairs a log until it can be read. Returns False if the disk has failed."""
        replica, pause = unreadable.replica, PAUSE_SECONDS_MIN
        while True:
            if await self._repair(replica, damaged_from):
                unreadable.was_clean = False
            entries = ReplicaLog(replica.log)
            try:
                entries.check_readable_from(damaged_from)
                await entries.high_watermark_at_start(replica.high_watermark)
            except DamagedLogError as error:
                if error.offset > damaged_from:
                    damaged_from, pause = error.offset, PAUSE_SECONDS_MIN
                    continue
            except OSError as error:
                if not is_out_of_files(error):
                    return False
            else:
                return True
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
