"""Makes the driver of a run the only member of the trigger's group, so that no replica handles the same events.

The driver joins the group as a replica does: it owns all shards, and sends heartbeats. A replica that starts meanwhile
finds no free shard and waits. If the driver loses its lease, the run ends. On Apache Kafka there is no membership.
"""

import threading  # noqa: TID251 - Spark blocks the thread of the driver, so the membership has its own
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import ExitStack, closing
from functools import partial

import trio
from msgspec import Struct

from tailrace.client.log_client import LATEST, LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of, unless_refused
from tailrace.client.spu_client import SpuClient
from tailrace.cluster.stream_state.rebalance_causes import Rebalance
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.embedded.side_loop import SideLoop
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import SeekTo, TriggerConfig
from tailrace.trigger.membership.member import MembershipConfig
from tailrace.trigger.membership.member_lease import MemberLease
from tailrace.trigger.replica.group_offsets import Claim, FencedError, GroupOffsets
from tailrace.trigger.replica.lone_membership import LoneMembership
from tailrace.trigger.replica.membership_task import Membership
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.replica.replica_setup import ReplicaServers
from tailrace.trigger.replica.state_store import ScStateStore
from tailrace.trigger.replica.trigger_replica import ReplicaMembership
from tailrace.trigger.work import Shard

from .live_members import conflict_with
from .range_outputs import shard_outputs

LEAVE_SECONDS_MAX = 5.0
"""How long the departure from the group may take."""
LOST = (
    "the driver has lost its place in the group: it did not reach the Streaming Controller within the session timeout"
)
RELEASED = "a deployed trigger of the same topic and group wants the shards"


class OwnershipError(JobError):
    """The run must not begin, because something else handles the same events. The message is one sentence."""


class Owned(Struct, frozen=True):
    """What the driver knows when it owns all shards."""

    brokers: tuple[Address, ...]
    asks_for_credentials: bool
    positions: Mapping[int, int]
    """Where each shard begins if Spark has no checkpoint."""
    ends: Mapping[int, int]
    """The end of each shard when the run began."""


class ShardOwnership:
    """The membership of the driver, in a thread of its own."""

    def __init__(
        self,
        config: TriggerConfig,
        servers: ReplicaServers,
        member_id: str,
        seams: Seams,
        logger: FilteringBoundLogger,
        beside: Callable[[SpuClient], Awaitable[None]] | None = None,
    ) -> None:
        """Prepares to join the group. `beside` runs in the same loop while the shards are owned."""
        self.epochs: Mapping[int, int] = {}
        """The shards that the driver owns, with the epoch of each. It is replaced, never changed."""
        self.problem = ""
        """Why the run must end; empty if it may go on."""
        self._config = config
        self._servers = servers
        self._member_id = member_id
        self._seams = seams
        self._logger = logger
        self._beside = beside
        self._owned: Owned | None = None
        self._error: BaseException | None = None
        self._membership: ReplicaMembership | None = None
        self._is_leaving = False
        self._changed = trio.Event()
        self._has_begun = threading.Event()
        """Set if the shards are owned, or if that has failed."""
        self._loop: SideLoop | None = None

    @property
    def owned(self) -> Owned | None:
        """What is known since the driver owns all shards."""
        return self._owned

    def start(self) -> None:
        """Joins the group in a thread of its own."""
        self._loop = SideLoop("tailrace-trigger-engine", self.run, self._failed)

    def wait(self) -> Owned:
        """Waits until the driver owns all shards. Raises OwnershipError, RefusedError and UnreachableError."""
        self._has_begun.wait()
        if self._owned is None:
            raise self._error or OwnershipError("the run was stopped before it owned its shards")
        return self._owned

    def give_up_waiting(self) -> None:
        """Ends `wait`, because a stop was asked for."""
        self._has_begun.set()

    def stop(self) -> None:
        """Releases all shards and leaves the group."""
        if self._loop is not None:
            self._loop.stop(2 * LEAVE_SECONDS_MAX)

    # What the membership says, as its owner

    def on_lease(self, lease: MemberLease) -> None:
        """Does nothing: the membership itself watches the end of the lease."""

    def on_gained(self, shards: Mapping[int, int]) -> None:
        self.epochs = {**self.epochs, **shards}
        self._wake()

    def on_release(self, shards: Collection[int]) -> None:
        """Releases the shards at the end of the run, when no task handles their events any more."""
        if not self._is_leaving:
            self.problem = self.problem or RELEASED
            return
        assert self._membership is not None, "only the membership asks"
        for each in shards:
            self._membership.released(each)

    def on_lost(self, shards: Collection[int]) -> None:
        self.problem = self.problem or LOST
        self._wake()

    def on_rebalanced(self, rebalance: Rebalance) -> None:
        """Counts nothing: the membership logs what its write has moved."""

    # The loop

    def _failed(self, error: BaseException) -> None:
        self._error = first_error(error) if isinstance(error, BaseExceptionGroup) else error
        self.problem = self.problem or str(self._error)
        self._has_begun.set()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def run(self, stop: trio.Event) -> None:
        """Owns the shards until `stop`. Raises OwnershipError, RefusedError and UnreachableError."""
        config, seams = self._config, self._seams
        with ExitStack() as stack:
            spus = stack.enter_context(closing(self._servers.spu_client(seams.network, config)))
            found = await spus.metadata([config.topic])
            shards = await _shards(spus, config.topic)
            self._membership = membership = await self._join(spus, stack)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(membership.run)
                await self._all_gained(shards, membership)
                offsets = stack.enter_context(closing(GroupOffsets(spus.another(), config.group, self._member_id)))
                positions = {each: await self._claim(each, offsets, membership, spus) for each in range(shards)}
                brokers = tuple(Address(each.host, each.port) for each in found.brokers)
                self._owned = Owned(
                    brokers, spus.asks_for_credentials is True, positions, await _ends(spus, config.topic, shards)
                )
                self._has_begun.set()
                if self._beside is not None:
                    nursery.start_soon(self._beside, spus)
                await stop.wait()
                self._is_leaving = True
                with trio.move_on_after(LEAVE_SECONDS_MAX):
                    await membership.leave()
                nursery.cancel_scope.cancel()

    async def _join(self, spus: SpuClient, stack: ExitStack) -> ReplicaMembership:
        config, seams = self._config, self._seams
        if not self._servers.sc:
            return LoneMembership(partial(_shards, spus, config.topic), self, self._logger)
        with closing(ScClient(seams.network, self._servers.sc)) as sc:
            conflict = conflict_with(await sc.read_stream_state(config.topic, config.group), self._member_id, config)
        if conflict is not None:
            raise OwnershipError(conflict)
        store = ScStateStore(seams.network, self._servers.sc, config.topic, config.group)
        stack.callback(store.close)
        membership = MembershipConfig(
            member_id=self._member_id,
            session_timeout=config.session_timeout,
            heartbeat_interval=config.heartbeat_interval,
        )
        return Membership(membership, store, self, seams.wall_clock, seams.chance, self._logger)

    async def _all_gained(self, shards: int, membership: ReplicaMembership) -> None:
        said = ""
        while len(self.epochs) < shards:
            if self.problem:  # the run would only begin to end
                raise OwnershipError(self.problem)
            with trio.move_on_after(1.0):
                await self._changed.wait()
            if membership.waiting_for not in ("", said):
                said = membership.waiting_for
                self._logger.info("waiting_for_shards", reason=said)

    async def _claim(self, number: int, offsets: GroupOffsets, membership: ReplicaMembership, spus: SpuClient) -> int:
        shard, config, seams = Shard(self._config.topic, number), self._config, self._seams
        if not config.is_exactly_once:
            return await self._claimed(number, partial(offsets.claim, shard), membership)
        # So the transaction of a task of an earlier driver ends now, and not at its timeout.
        with shard_outputs(spus, shard, config.group, config, self._member_id, seams, self._logger) as outputs:
            return await self._claimed(number, outputs.of(ReplicaMetrics()).claim, membership)

    async def _claimed(
        self, number: int, claim_with: Callable[[int, SeekTo], Awaitable[Claim]], membership: ReplicaMembership
    ) -> int:
        failures = 0
        while True:
            if number not in self.epochs:
                raise OwnershipError(self.problem or LOST)
            try:
                claim = await claim_with(self.epochs[number], self._config.seek_to)
            except FencedError as fenced:
                # The driver owns the shard, so the other claim is from before the state object was made anew.
                await membership.raise_epoch(fenced.epoch)
                self.epochs = dict(membership.shards)
            except (UnreachableError, RefusedError) as error:
                failures += 1
                if failures == 1:
                    self._logger.warning("shard_not_claimed", shard=number, reason=reason_of(error))
                await trio.sleep(spread_pause_seconds(failures, self._seams.chance))
            else:
                return claim.offset


async def _shards(spus: SpuClient, topic: str) -> int:
    return len(unless_refused((await LogClient(spus).partitions([topic]))[topic]))


async def _ends(spus: SpuClient, topic: str, shards: int) -> dict[int, int]:
    wanted = [Partition(topic, each) for each in range(shards)]
    found = await LogClient(spus).offsets_at(wanted, LATEST)
    return {each.number: unless_refused(found[each]) for each in wanted}
