"""Logs in which bits have flipped, so that they did not open, or cannot be read any more by who leads or follows, while
what was there is looked for on other SPUs.

Where others are is not known yet when an SPU starts, and they may start later: so that is tried again and again, ever
more seldom. Meanwhile the replica is one that did not open. When its log can be read it is closed, and opened anew.
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
"""Others are mostly known by then."""
PAUSE_SECONDS_MAX = 60.0


class _Unreadable(Struct):
    replica: Replica
    """It takes no part in anything."""
    was_whole: bool
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
    def __init__(
        self,
        nursery: trio.Nursery,
        mend: Callable[[Replica, int], Awaitable[bool]],
        closed: ClosedReplicas,
        owner: LogOwner,
    ) -> None:
        """`mend`: what is damaged soon after the offset, as far as others have it. It says whether it has cut off the
        rest, because nobody else can have it."""
        self._nursery = nursery
        self._mend = mend
        self._closed = closed
        self._by_key: dict[ReplicaKey, _Unreadable] = {}
        self._readable: dict[ReplicaKey, tuple[float, float]] = {}
        """Those that were opened a while ago: when, and after which pause."""
        self._owner = owner

    def add(self, replica: Replica, damaged_from: int, *, was_whole: bool) -> None:
        """Its log is in the hands of this object now, until it is given back. `was_whole`: as it was closed last; so
        it is when it is closed again, for nothing has come to it: where it is damaged it is not to be cut off."""
        unreadable = self._by_key[replica.key] = _Unreadable(replica, was_whole)
        self._nursery.start_soon(self._look_after, unreadable, damaged_from)

    def add_soon(self, replica: Replica) -> None:
        """One that is in use; whoever has found that out is still at it."""
        self._nursery.start_soon(self._owner.on_unreadable, replica)

    async def give_back(self, key: ReplicaKey) -> None:
        """If it was here: nobody mends its log any more, and it is closed."""
        unreadable = self._by_key.get(key)
        if unreadable is not None:
            unreadable.scope.cancel()
            await unreadable.closed.wait()

    async def _look_after(self, unreadable: _Unreadable, damaged_from: int) -> None:
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
            if unreadable.was_whole:
                self._closed.whole.add(replica.key)
            del self._by_key[replica.key]
            unreadable.closed.set()
        if is_readable:
            await self._owner.on_readable(replica.key)

    def _pause_before(self, key: ReplicaKey) -> float:
        """Before one is looked at that had just been opened: what is wrong with it is not found here."""
        since = trio.current_time() - PAUSE_SECONDS_MAX
        self._readable = {each: opened for each, opened in self._readable.items() if opened[0] > since}
        opened = self._readable.get(key)
        return 0 if opened is None else min(max(2 * opened[1], PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX)

    async def _make_readable(self, unreadable: _Unreadable, damaged_from: int) -> bool:
        """False: its disk has failed."""
        replica, pause = unreadable.replica, PAUSE_SECONDS_MIN
        while True:
            if await self._mend(replica, damaged_from):
                unreadable.was_whole = False
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
