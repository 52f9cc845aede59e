"""Moves old segments of the partitions that this SPU leads to shelves, and deletes them from the log.

This is the leader's side; `offload_plan` decides what to do. A round handles each partition with shelves once, a few at
a time. A partition with slow stores gives up its turn, so that other partitions do not wait for it. Whatever fails is
retried in the next round, and until then the log keeps its segments.
"""

from collections.abc import Awaitable, Callable, Sequence

import trio
from msgspec import Struct, field

from tailrace.broker.controller_link.sc_connection import ScUnreachableError
from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.upkeep.resting import rest
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError, known_code
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse
from tailrace.protocol.internal.report_shelves import (
    FilledShelf,
    ReportedPartition,
    ReportShelvesRequest,
    ReportShelvesResponse,
)
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS, InternalApiKey
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.manifest.compaction_history import compacted_up_to
from tailrace.storage.manifest.manifest import SegmentFacts

from .offload_plan import AdvanceLogStart, Fill, Report, ShelvedPartition, Step, next_step

AT_ONCE_MAX = 4
"""How many partitions are handled at once."""
TURN_SECONDS_MAX = 60.0
"""The length of a partition's turn. A step that has begun is finished."""
FILL_SECONDS_MAX = 15.0
"""How long a store may take to respond. It fills for about five seconds and then confirms what it has."""
STORE_SPEC_SECONDS_MAX = 5.0
"""How long a store may lack the specs of a new shelf or leader. The specs may reach the leader a little earlier."""
STORE_SPEC_RETRY_SECONDS = 0.2
REPORT_SECONDS_MAX = 5.0
"""How long the leader waits until its specs show what it has reported. The SC may be offline, or refuse it."""
CLIENT_ID = "tailrace-shelves"
_API = SPU_OBJECT_APIS[InternalApiKey.FILL_SHELF]

ReportShelves = Callable[[ReportShelvesRequest], Awaitable[ReportShelvesResponse]]
"""Sends a report to the Streaming Controller. Raises ScUnreachableError."""


class _Known(Struct):
    """What the stores of a partition have confirmed, while this SPU leads it in one epoch."""

    epoch: Epoch
    copied_ends: dict[tuple[int, SpuId], int] = field(default_factory=dict)
    contents: dict[int, Sequence[SegmentFacts]] = field(default_factory=dict)
    delete_before: int = 0
    """These three are explained in `ShelvedPartition`."""


class Offloading:
    """Carries out the steps of the plan for all partitions that this SPU leads."""

    def __init__(
        self,
        spu_requests: SpuRequests,
        replicas: ReplicaRegistry,
        configs: BrokerConfigs,
        wall_clock: WallClock,
        report: ReportShelves,
        logger: FilteringBoundLogger,
    ) -> None:
        self._spu_requests = spu_requests
        self._replicas = replicas
        self._configs = configs
        self._wall_clock = wall_clock
        self._report_shelves = report
        self._logger = logger
        self._known: dict[ReplicaKey, _Known] = {}
        """What is known about each partition that this SPU leads and that has shelves."""
        self._due: dict[ReplicaKey, bool] = {}
        """The partitions that wait for a turn, in order, and whether to ask all their stores what they have."""
        self._busy: set[ReplicaKey] = set()
        self._changed = trio.Event()

    @property
    def known_count(self) -> int:
        """The number of partitions about which something is known, for tests."""
        return len(self._known)

    # deleting records

    def request_deletion(self, replica: Replica, end: int) -> None:
        """Notes that records on shelves are to be deleted, even if the client stops waiting for it."""
        if replica.spec.shelves and end > replica.spec.shelved_from:
            known = self._known_of(replica)
            known.delete_before = max(known.delete_before, end)

    async def wait_until_deleted(self, replica: Replica, end: int, epoch: int) -> None:
        """Waits until the Streaming Controller has deleted the records on shelves. The caller sets the deadline.

        Raises KafkaError if this replica does not lead in the epoch any more.
        """
        is_deleted = _IsDeleted(end)
        while not is_deleted(replica.spec):
            with trio.move_on_after(REPORT_SECONDS_MAX):
                await self._send_report(replica, replica.spec, Report(shelved_from=end))
                await replica.wait_for_spec(is_deleted, epoch)

    # rounds

    async def run(self) -> None:
        """Runs a round in each retention interval, until it is cancelled."""
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE_MAX):
                nursery.start_soon(self._take_turns)
            while True:
                await rest(lambda: self._configs.settings.retention_check_interval_ms / 1000)
                self.begin_round()

    def begin_round(self) -> None:
        """Queues all partitions that this SPU leads and that have shelves."""
        led = [replica for replica in self._replicas if replica.is_recovered_leader and replica.has_shelves]
        keys = {replica.key for replica in led}
        self._known = {key: known for key, known in self._known.items() if key in keys}
        waiting = [key for key in self._due if key in keys]
        self._due = dict.fromkeys((*waiting, *(replica.key for replica in led)), True)
        self._wake()

    async def _take_turns(self) -> None:
        while True:
            key = next((each for each in self._due if each not in self._busy), None)
            if key is None:
                await self._changed.wait()
                continue
            asks_stores = self._due.pop(key)
            replica = self._replicas.find(*key)
            if replica is None:
                continue
            self._busy.add(key)
            try:
                if await self.offload(replica, asks_stores=asks_stores):
                    self._due.setdefault(key, False)
            finally:
                self._busy.discard(key)
                self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # one turn

    async def offload(self, replica: Replica, *, asks_stores: bool = True) -> bool:
        """Does what can be done for one partition now; returns True if its turn ended with work left."""
        if not replica.is_recovered_leader:
            return False
        epoch, known, failed = replica.spec.epoch, self._known_of(replica), set[SpuId]()
        if asks_stores:
            known.copied_ends.clear()
        ends_at, may_report = trio.current_time() + TURN_SECONDS_MAX, True
        while replica.is_recovered_leader and replica.spec.epoch == epoch:
            step = next_step(self._partition(replica, known, failed, may_report=may_report))
            if step is None:
                return False
            if trio.current_time() >= ends_at:
                return True
            if not await self._carry_out(step, replica, known, failed):
                if not isinstance(step, Report):
                    return False
                may_report = False
        return False

    def _known_of(self, replica: Replica) -> _Known:
        known = self._known.get(replica.key)
        if known is None or known.epoch != replica.spec.epoch:
            known = self._known[replica.key] = _Known(replica.spec.epoch)
        return known

    def _partition(self, replica: Replica, known: _Known, failed: set[SpuId], *, may_report: bool) -> ShelvedPartition:
        log, spec = replica.log, replica.spec
        bases = {shelf.base for shelf in spec.shelves}
        known.contents = {base: segments for base, segments in known.contents.items() if base in bases}
        known.copied_ends = {copy: end for copy, end in known.copied_ends.items() if copy[0] in bases}
        return ShelvedPartition(
            spec,
            replica.settings,
            replica.wants_more_shelves,
            log.log_start,
            log.segments(),
            replica.high_watermark,
            log.synced_end,
            compacted_up_to(log.compactions),
            self._wall_clock.now_ms(),
            self._spu_requests.online(),
            frozenset(failed),
            known.copied_ends,
            known.contents,
            known.delete_before,
            stable_end=replica.last_stable_offset,
            may_report=may_report,
        )

    async def _carry_out(self, step: Step, replica: Replica, known: _Known, failed: set[SpuId]) -> bool:
        """Carries out a step; returns whether it achieved something."""
        try:
            match step:
                case Report():
                    return await self._report(step, replica)
                case AdvanceLogStart():
                    await self._advance(step, replica)
                case Fill():
                    await self._fill(step, replica, known, failed)
        except KafkaError as error:
            self._log(replica).warning("housekeeping_postponed", reason=error.message)
            return False
        return True

    async def _advance(self, step: AdvanceLogStart, replica: Replica) -> None:
        before = replica.log.log_start
        await replica.delete_records(step.log_start)
        logger = self._log(replica).bind(records=step.log_start - before, log_start=step.log_start)
        if step.is_local:
            logger.info("local_segments_removed")
        else:
            logger.info("segments_removed")

    # the Streaming Controller

    async def _report(self, step: Report, replica: Replica) -> bool:
        """Reports to the SC; returns whether the specs then changed."""
        before = replica.spec
        is_stored = False
        with trio.move_on_after(REPORT_SECONDS_MAX):
            if await self._send_report(replica, before, step):
                await replica.wait_for_spec(lambda spec: _shelves(spec) != _shelves(before), before.epoch)
                is_stored = True
        if is_stored:
            self._log_changes(replica, before, replica.spec)
        return is_stored

    async def _send_report(self, replica: Replica, spec: PartitionSpec, step: Report) -> bool:
        """Sends a report; returns whether the SC accepted it. The specs show later what it has done."""
        reported = ReportedPartition(
            spec.topic_id,
            spec.partition,
            spec.epoch,
            max(spec.shelved_from, step.shelved_from),
            [FilledShelf(*each) for each in step.filled],
            step.next_base,
        )
        try:
            response = await self._report_shelves(ReportShelvesRequest([reported]))
        except ScUnreachableError as error:
            self._log(replica).info("shelves_not_reported", reason=str(error))
            return False
        if response.error_code != ErrorCode.NONE:
            self._log(replica).info("shelves_not_reported", reason=known_code(response.error_code).name)
            return False
        return True

    def _log_changes(self, replica: Replica, before: PartitionSpec, after: PartitionSpec) -> None:
        logger, known_before = self._log(replica), {shelf.base: shelf for shelf in before.shelves}
        if after.shelved_from > before.shelved_from and before.shelves:
            logger.info("shelved_segments_removed", shelved_from=after.shelved_from)
        for shelf in after.shelves:
            earlier = known_before.get(shelf.base)
            if earlier is None:
                logger.info("shelf_added", base=shelf.base, stores=list(shelf.stores))
            elif shelf.end > earlier.end:
                logger.info("segments_shelved", base=shelf.base, end=shelf.end, stores=list(shelf.stores))

    # the stores

    async def _fill(self, step: Fill, replica: Replica, known: _Known, failed: set[SpuId]) -> None:
        async def fill_one(spu: SpuId) -> None:
            response = await self._ask_store(step, replica, spu)
            if response is None:
                failed.add(spu)
                return
            before = known.copied_ends.get((step.base, spu))
            known.copied_ends[step.base, spu] = response.end
            if response.end < step.end and before is not None and response.end <= before:
                failed.add(spu)  # it makes no progress
            segments = known.contents.get(step.base, ())
            if response.segments and (not segments or response.end >= segments[-1].end):
                known.contents[step.base] = _facts_of(response)

        async with trio.open_nursery() as nursery:
            for spu in step.spus:
                nursery.start_soon(fill_one, spu)

    async def _ask_store(self, step: Fill, replica: Replica, spu: SpuId) -> FillShelfResponse | None:
        request = FillShelfRequest(*replica.key, step.base, step.end, self._spu_requests.own_id)
        retry_until = trio.current_time() + STORE_SPEC_SECONDS_MAX
        try:
            while True:
                response: FillShelfResponse = await self._spu_requests.send(
                    spu, CLIENT_ID, _API, request, FILL_SECONDS_MAX
                )
                if response.error_code == ErrorCode.NONE:
                    return response
                reason = response.error_message or known_code(response.error_code).name
                may_lack_specs = response.error_code in (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                )
                if not may_lack_specs or trio.current_time() >= retry_until:
                    break
                await trio.sleep(STORE_SPEC_RETRY_SECONDS)
        except (OSError, RemoteProtocolError) as error:
            reason = str(error)
        self._log(replica).warning("segments_not_shelved", store=spu, base=step.base, end=step.end, reason=reason)
        return None

    def _log(self, replica: Replica) -> FilteringBoundLogger:
        return self._logger.bind(topic=replica.topic, partition=replica.partition)


class _IsDeleted(Struct, frozen=True):
    """A condition on specs: no shelf has records before the offset any more."""

    end: int

    def __call__(self, spec: PartitionSpec) -> bool:
        return not spec.shelves or spec.shelved_from >= self.end


def _shelves(spec: PartitionSpec) -> tuple[object, ...]:
    return spec.shelved_from, spec.shelves


def _facts_of(response: FillShelfResponse) -> Sequence[SegmentFacts]:
    return [
        SegmentFacts(
            each.base,
            each.end,
            size=each.size_bytes,
            first_timestamp=each.first_timestamp,
            max_timestamp=each.max_timestamp,
        )
        for each in response.segments
    ]
