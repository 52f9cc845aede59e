"""Puts old segments of what is led here on shelves, and lets them go from the log: carries out what the plan says.

All partitions with shelves are gone through once a round; a few at a time, and none for so long that others wait for
the stores of one. Whatever fails is tried again in the next round: meanwhile the log keeps what it has.
"""

from collections.abc import Awaitable, Callable, Sequence

import trio
from msgspec import Struct, field
from structlog.typing import FilteringBoundLogger

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
from tailrace.runtime.wall_clock import WallClock
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.manifest.compaction_history import compacted_up_to
from tailrace.storage.manifest.manifest import SegmentFacts

from .offload_plan import Advance, Fill, Report, ShelvedPartition, Step, next_step

AT_ONCE_MAX = 4
"""Partitions."""
TURN_SECONDS_MAX = 60.0
"""Of one partition, until it is the turn of others. What was begun is finished."""
FILL_SECONDS_MAX = 15.0
"""A store answers after about five at the latest, with as much as it has got."""
TOLD_SECONDS_MAX = 5.0
"""A store may be told of a shelf, or of a leader, a little later than the leader."""
TOLD_AGAIN_SECONDS = 0.2
SHOWN_SECONDS_MAX = 5.0
"""Until what was reported is in the specs: the Streaming Controller may be away, or may not do it."""
CLIENT_ID = "tailrace-shelves"
_API = SPU_OBJECT_APIS[InternalApiKey.FILL_SHELF]

AskController = Callable[[ReportShelvesRequest], Awaitable[ReportShelvesResponse]]
"""Raises ScUnreachableError."""


class _Known(Struct):
    """Of a partition, as long as it is led here in one epoch."""

    epoch: Epoch
    copies: dict[tuple[int, SpuId], int] = field(default_factory=dict)
    contents: dict[int, Sequence[SegmentFacts]] = field(default_factory=dict)
    delete_before: int = 0


class Shelving:
    def __init__(
        self,
        spu_requests: SpuRequests,
        replicas: ReplicaRegistry,
        configs: BrokerConfigs,
        wall_clock: WallClock,
        report: AskController,
        logger: FilteringBoundLogger,
    ) -> None:
        self._spu_requests = spu_requests
        self._replicas = replicas
        self._configs = configs
        self._wall_clock = wall_clock
        self._ask_controller = report
        self._logger = logger
        self._known: dict[ReplicaKey, _Known] = {}
        """Of those that are led here and have shelves."""
        self._due: dict[ReplicaKey, bool] = {}
        """Whose turn comes, in this order, and whether all stores are to be asked then what they have."""
        self._busy: set[ReplicaKey] = set()
        self._changed = trio.Event()

    @property
    def known_count(self) -> int:
        """Of how many partitions something is known of stores."""
        return len(self._known)

    # deleting records

    def want_deleted(self, replica: Replica, end: int) -> None:
        """Of what is on shelves; even if nobody waits for it any more."""
        if replica.spec.shelves and end > replica.spec.shelved_from:
            known = self._known_of(replica)
            known.delete_before = max(known.delete_before, end)

    async def wait_until_deleted(self, replica: Replica, end: int, epoch: int) -> None:
        """Until the Streaming Controller has said so. Raises KafkaError if this replica does not lead in that epoch any
        more. How long to wait is the caller's to say."""
        is_deleted = _Deleted(end)
        while not is_deleted(replica.spec):
            with trio.move_on_after(SHOWN_SECONDS_MAX):
                await self._say(replica, replica.spec, Report(shelved_from=end))
                await replica.wait_for_spec(is_deleted, epoch)

    # rounds

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE_MAX):
                nursery.start_soon(self._take_turns)
            while True:
                await rest(lambda: self._configs.settings.retention_check_interval_ms / 1000)
                self.begin_round()

    def begin_round(self) -> None:
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
            asks = self._due.pop(key)
            replica = self._replicas.find(*key)
            if replica is None:
                continue
            self._busy.add(key)
            try:
                if await self.attend(replica, asks=asks):
                    self._due.setdefault(key, False)
            finally:
                self._busy.discard(key)
                self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # one turn

    async def attend(self, replica: Replica, *, asks: bool = True) -> bool:
        """Does what can be done for one partition now. Whether that took too long, and there is more of it."""
        if not replica.is_recovered_leader:
            return False
        epoch, known, failed = replica.spec.epoch, self._known_of(replica), set[SpuId]()
        if asks:
            known.copies.clear()
        ends_at, reports = trio.current_time() + TURN_SECONDS_MAX, True
        while replica.is_recovered_leader and replica.spec.epoch == epoch:
            step = next_step(self._partition(replica, known, failed, reports=reports))
            if step is None:
                return False
            if trio.current_time() >= ends_at:
                return True
            if not await self._carry_out(step, replica, known, failed):
                if not isinstance(step, Report):
                    return False
                reports = False
        return False

    def _known_of(self, replica: Replica) -> _Known:
        known = self._known.get(replica.key)
        if known is None or known.epoch != replica.spec.epoch:
            known = self._known[replica.key] = _Known(replica.spec.epoch)
        return known

    def _partition(self, replica: Replica, known: _Known, failed: set[SpuId], *, reports: bool) -> ShelvedPartition:
        log, spec = replica.log, replica.spec
        bases = {shelf.base for shelf in spec.shelves}
        known.contents = {base: segments for base, segments in known.contents.items() if base in bases}
        known.copies = {copy: end for copy, end in known.copies.items() if copy[0] in bases}
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
            known.copies,
            known.contents,
            known.delete_before,
            reports,
        )

    async def _carry_out(self, step: Step, replica: Replica, known: _Known, failed: set[SpuId]) -> bool:
        """Whether it came to anything."""
        try:
            match step:
                case Report():
                    return await self._report(step, replica)
                case Advance():
                    await self._advance(step, replica)
                case Fill():
                    await self._fill(step, replica, known, failed)
        except KafkaError as error:
            self._log(replica).warning("housekeeping_put_off", reason=error.message)
            return False
        return True

    async def _advance(self, step: Advance, replica: Replica) -> None:
        before = replica.log.log_start
        await replica.delete_records(step.log_start)
        logger = self._log(replica).bind(records=step.log_start - before, log_start=step.log_start)
        if step.is_local:
            logger.info("local_segments_removed")
        else:
            logger.info("segments_removed")

    # the Streaming Controller

    async def _report(self, step: Report, replica: Replica) -> bool:
        """Whether the specs are others by now."""
        before = replica.spec
        is_shown = False
        with trio.move_on_after(SHOWN_SECONDS_MAX):
            if await self._say(replica, before, step):
                await replica.wait_for_spec(lambda spec: _shelves(spec) != _shelves(before), before.epoch)
                is_shown = True
        if is_shown:
            self._tell(replica, before, replica.spec)
        return is_shown

    async def _say(self, replica: Replica, spec: PartitionSpec, step: Report) -> bool:
        """Whether it was not refused. What comes of it the specs will say."""
        reported = ReportedPartition(
            spec.topic_id,
            spec.partition,
            spec.epoch,
            max(spec.shelved_from, step.shelved_from),
            [FilledShelf(*each) for each in step.filled],
            step.next_base,
        )
        try:
            answer = await self._ask_controller(ReportShelvesRequest([reported]))
        except ScUnreachableError as error:
            self._log(replica).info("shelves_not_reported", reason=str(error))
            return False
        if answer.error_code != ErrorCode.NONE:
            self._log(replica).info("shelves_not_reported", reason=known_code(answer.error_code).name)
            return False
        return True

    def _tell(self, replica: Replica, before: PartitionSpec, after: PartitionSpec) -> None:
        logger, known_before = self._log(replica), {shelf.base: shelf for shelf in before.shelves}
        if after.shelved_from > before.shelved_from and before.shelves:
            logger.info("shelved_segments_removed", shelved_from=after.shelved_from)
        for shelf in after.shelves:
            earlier = known_before.get(shelf.base)
            if earlier is None:
                logger.info("shelf_begun", base=shelf.base, stores=list(shelf.stores))
            elif shelf.end > earlier.end:
                logger.info("segments_shelved", base=shelf.base, end=shelf.end, stores=list(shelf.stores))

    # the stores

    async def _fill(self, step: Fill, replica: Replica, known: _Known, failed: set[SpuId]) -> None:
        async def fill_one(spu: SpuId) -> None:
            answer = await self._answer(step, replica, spu)
            if answer is None:
                failed.add(spu)
                return
            before = known.copies.get((step.base, spu))
            known.copies[step.base, spu] = answer.end
            if answer.end < step.end and before is not None and answer.end <= before:
                failed.add(spu)  # it gets no further
            segments = known.contents.get(step.base, ())
            if answer.segments and (not segments or answer.end >= segments[-1].end):
                known.contents[step.base] = _facts_of(answer)

        async with trio.open_nursery() as nursery:
            for spu in step.spus:
                nursery.start_soon(fill_one, spu)

    async def _answer(self, step: Fill, replica: Replica, spu: SpuId) -> FillShelfResponse | None:
        request = FillShelfRequest(*replica.key, step.base, step.end, self._spu_requests.own_id)
        told_until = trio.current_time() + TOLD_SECONDS_MAX
        try:
            while True:
                answer: FillShelfResponse = await self._spu_requests.send(
                    spu, CLIENT_ID, _API, request, FILL_SECONDS_MAX
                )
                if answer.error_code == ErrorCode.NONE:
                    return answer
                reason = answer.error_message or known_code(answer.error_code).name
                is_to_be_told = answer.error_code in (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                )
                if not is_to_be_told or trio.current_time() >= told_until:
                    break
                await trio.sleep(TOLD_AGAIN_SECONDS)
        except (OSError, RemoteProtocolError) as error:
            reason = str(error)
        self._log(replica).warning("segments_not_shelved", store=spu, base=step.base, end=step.end, reason=reason)
        return None

    def _log(self, replica: Replica) -> FilteringBoundLogger:
        return self._logger.bind(topic=replica.topic, partition=replica.partition)


class _Deleted(Struct, frozen=True):
    """Whether the records before the offset are on no shelf any more."""

    end: int

    def __call__(self, spec: PartitionSpec) -> bool:
        return not spec.shelves or spec.shelved_from >= self.end


def _shelves(spec: PartitionSpec) -> tuple[object, ...]:
    return spec.shelved_from, spec.shelves


def _facts_of(answer: FillShelfResponse) -> Sequence[SegmentFacts]:
    return [
        SegmentFacts(
            each.base,
            each.end,
            size=each.size_bytes,
            first_timestamp=each.first_timestamp,
            max_timestamp=each.max_timestamp,
        )
        for each in answer.segments
    ]
