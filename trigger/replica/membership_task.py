"""Keeps a replica a member of its group: reads and writes the state object, and tells the replica about its shards.

`Member` decides. This task reads, writes and waits for it. It also watches the end of the lease, even while a request
to the Streaming Controller is under way.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import trio

from tailrace.cluster.stream_state.rebalance_causes import Rebalance, RebalanceCause
from tailrace.cluster.stream_state.shard_ranges import format_shards
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock
from tailrace.trigger.membership.member import Member, MembershipConfig, Wait, WaitReason, Write
from tailrace.trigger.membership.member_lease import MemberLease

from .state_store import StateConflictError, StateStore, StateUnavailableError
from .wake import Wake

_WAITING_FOR = {
    WaitReason.BELOW_SHARE: "other replicas still have some of the shards of this one",
    WaitReason.NOTHING_FREE: "all shards are taken; the replica takes shards that another one releases",
    WaitReason.NAME_TAKEN: "another process with the name of this replica has not left and is not stale yet",
    WaitReason.CONFLICT: "other replicas change the state object at the same time",
    WaitReason.UNAVAILABLE: "the Streaming Controller does not respond",
    WaitReason.OUTDATED: "the Streaming Controller has an older state object than this replica has written",
}


class ShardOwner(Protocol):
    """What a replica does when its shards change. Every call returns at once, and never waits."""

    def on_lease(self, lease: MemberLease) -> None:
        """Handles shards until the ends of a lease. This call comes before `on_gained`, and with each heartbeat."""

    def on_gained(self, shards: Mapping[int, int]) -> None:
        """Begins to handle shards; each comes with its epoch."""

    def on_release(self, shards: Collection[int]) -> None:
        """Hands out no more events of these shards. When all is handled and committed, calls `Membership.released`."""

    def on_lost(self, shards: Collection[int]) -> None:
        """Stops handling these shards at once, and kills the workers that handle their events."""

    def on_rebalanced(self, rebalance: Rebalance) -> None:
        """Counts shards that this replica's write of the state has moved."""


class Membership:
    """The membership of one replica in one group."""

    def __init__(
        self,
        config: MembershipConfig,
        store: StateStore,
        owner: ShardOwner,
        wall_clock: WallClock,
        chance: Chance,
        logger: FilteringBoundLogger,
    ) -> None:
        self.problem = ""
        """Why the state object can be neither read nor written at the moment; empty if it can."""
        self._member = Member(config, process=chance.uuid().hex[:16])
        self._store = store
        self._owner = owner
        self._wall_clock = wall_clock
        self._chance = chance
        self._logger = logger
        self._request_seconds_max = min(config.heartbeat_interval, config.session_timeout / 5)
        self._reported: set[int] = set()
        """The shards that the replica thinks it has."""
        self._asked: set[int] = set()
        """The shards that the replica was asked to release."""
        self._lease: MemberLease | None = None
        self._changed = Wake()
        """Wakes tasks when shards, epochs or the lease may have changed."""
        self._woken = trio.Event()
        self._has_left = trio.Event()

    @property
    def shards(self) -> Mapping[int, int]:
        """The shards that the replica may handle now, with their epochs."""
        return self._member.shards

    @property
    def waiting_for(self) -> str:
        """What the replica waits for, in words; empty if it has its share of the shards."""
        return self.problem or _WAITING_FOR.get(self._member.wait_reason, "")

    async def run(self) -> None:
        """Keeps the membership, and returns after `leave`.

        If it is cancelled, the entry of the replica stays in the state object until it is stale.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_lease)
            while not self._member.has_left:
                self._woken = trio.Event()
                wait = await self._read_and_write()
                self._report()
                if not self._member.has_left:
                    with trio.move_on_at(wait.until):
                        await self._woken.wait()
            nursery.cancel_scope.cancel()
        self._has_left.set()

    def released(self, shard: int) -> None:
        """Gives up a shard whose events are all handled and committed."""
        self._member.released(shard)
        self._reported.discard(shard)
        self._asked.discard(shard)
        self._woken.set()

    async def leave(self) -> None:
        """Asks the replica to release all shards, and returns when it has done so and its entry is removed.

        This may take until the Streaming Controller responds again, so the caller sets a time limit.
        """
        self._member.leave()
        self._report()
        self._woken.set()
        await self._has_left.wait()

    async def raise_epoch(self, above: int) -> None:
        """Returns when each shard of the replica has an epoch above one that a stored commit has.

        This is needed only if the store was made anew, while the brokers have kept their commits.
        """
        self._member.raise_epoch(above)
        self._woken.set()
        while any(epoch <= above for epoch in self._member.shards.values()):
            await self._changed.wait()

    async def _read_and_write(self) -> Wait:
        """Reads the state, and writes it if the member wants to. Returns when to do so again."""
        try:
            with self._time_limit():
                read = await self._store.read()
        except StateUnavailableError as error:
            return self._is_unavailable(str(error))
        self._is_available()
        now = trio.current_time()
        step = self._member.on_read(now, self._wall_clock.now_ms(), self._chance.fraction(), read)
        self._report()
        return step if isinstance(step, Wait) else await self._write(step)

    async def _write(self, step: Write) -> Wait:
        sent_at = trio.current_time()
        try:
            with self._time_limit():
                version = await self._store.write(step.state, step.expected_version)
        except StateConflictError:
            return self._member.on_conflict(trio.current_time(), self._chance.fraction())
        except StateUnavailableError as error:
            return self._is_unavailable(str(error))
        for rebalance in step.rebalances:
            self._log_rebalance(rebalance)
            self._owner.on_rebalanced(rebalance)
        return self._member.on_written(trio.current_time(), sent_at, version, self._chance.fraction())

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Raises StateUnavailableError if a request takes too long."""
        with trio.move_on_after(self._request_seconds_max) as limit:
            yield
        if limit.cancelled_caught:
            raise StateUnavailableError(f"the SC has not responded for {self._request_seconds_max:.1f} s")

    async def _watch_lease(self) -> None:
        """Gives up the shards when the lease ends."""
        while True:
            with trio.move_on_at(math.inf if self._lease is None else self._lease.handle_until):
                await self._changed.wait()
            self._member.on_time(trio.current_time())
            if self._member.lease is None and self._lease is not None:
                self._report()

    def _report(self) -> None:
        """Tells the replica what has changed since the last report."""
        member, held = self._member, dict(self._member.shards)
        lost = self._reported - held.keys()
        gained = {shard: held[shard] for shard in sorted(held.keys() - self._reported)}
        release = member.releasing - self._asked
        self._reported, self._asked = set(held), set(member.releasing)
        if lost:
            self._logger.warning(
                "shards_lost", shards=format_shards(lost), reason=self.problem or "the lease has ended"
            )
            self._owner.on_lost(lost)
        if member.lease != self._lease:
            self._lease = member.lease
            if member.lease is not None:
                self._owner.on_lease(member.lease)
        if gained:
            self._owner.on_gained(gained)
        if release:
            self._owner.on_release(release)
        self._changed.set()

    def _is_unavailable(self, problem: str) -> Wait:
        if not self.problem:
            self._logger.warning("state_object_unavailable", reason=problem)
        self.problem = problem
        self._store.reconnect()
        return self._member.on_unavailable(trio.current_time(), self._chance.fraction())

    def _is_available(self) -> None:
        if self.problem:
            self.problem = ""
            self._logger.info("state_object_available_again")

    def _log_rebalance(self, rebalance: Rebalance) -> None:
        shards = format_shards(rebalance.shards)
        if rebalance.is_gain:
            self._logger.info("shards_gained", shards=shards, cause=rebalance.cause.value)
        elif rebalance.cause is RebalanceCause.STALE_MEMBER_REMOVED:
            self._logger.warning("stale_member_removed", member=rebalance.member_id, shards=shards)
        else:
            self._logger.info("shards_released", shards=shards, cause=rebalance.cause.value)
