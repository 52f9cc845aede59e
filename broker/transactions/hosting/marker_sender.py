"""Sends the markers of the coordinators on this SPU to the leaders of partitions, until all are written.

A leader acknowledges a marker when it is committed by the replication policy of its partition. Markers that are due at
the same time share a request. If no leader takes a marker, it is sent again after a pause that grows, and the log says
so once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.transactions.common.marker_work import MarkerStep, MarkerWork, step_after
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.write_txn_markers import WritableTxnMarker, WriteTxnMarkersResponse
from tailrace.runtime.backoff import doubled_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger

from .marker_lines import TRANSACTION_VERSION_FROM, Line, MarkerLines, WaitingMarker, outcomes, request_of
from .transaction_coordination import SendToSpu

if TYPE_CHECKING:
    from tailrace.broker.coordination.coordinator_kind import CoordinatorHost
    from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator

    Owner: TypeAlias = CoordinatorHost[TransactionCoordinator]

REQUESTS_IN_FLIGHT_MAX = 4
"""How many requests of one line are in flight. Further markers wait and share the next request."""
SECONDS_MAX = 10.0
"""How long a request may take; a leader waits 5 s for its followers."""
PAUSE_SECONDS_MIN = 0.02
FAILURES_TO_LOG = 10
"""After how many failures in a row the log says that a marker waits."""

WriteLocally: TypeAlias = Callable[[Sequence[WritableTxnMarker], Callable[[WriteTxnMarkersResponse], None]], None]
"""Writes markers to the partitions that this SPU leads. Calls the function once, at once or later."""


class MarkerSender:
    def __init__(
        self,
        own_id: SpuId,
        cluster: Cluster,
        send_to: SendToSpu,
        write_locally: WriteLocally,
        end_turn: Callable[[], None],
        chance: Chance,
        nursery: trio.Nursery,
        logger: FilteringBoundLogger,
    ) -> None:
        self._own_id = own_id
        self._send_request = send_to
        self._write_locally = write_locally
        self._end_turn = end_turn
        self._chance = chance
        self._nursery = nursery
        self._logger = logger
        self._lines = MarkerLines(cluster)
        self._in_flight: Counter[Line] = Counter()
        """The number of tasks that send the markers of each line."""
        self._waking: trio.CancelScope | None = None
        """The sleep of the task that wakes resting markers; None if there is no such task."""
        self._answered: list[tuple[Sequence[WaitingMarker], WriteTxnMarkersResponse]] = []
        """The responses of this SPU that were not handled yet."""
        self._writes_here = False
        """Whether markers are being written here at the moment. What writes them handles the responses that come at
        once."""

    @property
    def waiting(self) -> int:
        """The number of markers that wait for a leader."""
        return self._lines.waiting

    def send(self, owner: "Owner", work: "MarkerWork") -> None:
        """Sends the markers of one transaction. The owner is told of each."""
        markers = [
            WaitingMarker(
                owner,
                work.transactional_id,
                work.producer_id,
                work.producer_epoch,
                work.is_commit,
                work.coordinator_epoch,
                work.transaction_version,
                partition,
            )
            for partition in work.partitions
        ]
        self._line_up(markers)

    def forget_ended(self) -> None:
        """Discards the markers of coordinators that have ended. The next coordinators send them again."""
        self._lines.forget_ended()

    # lines

    def _line_up(self, markers: Iterable[WaitingMarker]) -> None:
        now = trio.current_time()
        lines: set[Line] = set()
        gone: list[tuple[WaitingMarker, ErrorCode]] = []
        for marker in markers:
            line = self._lines.add(marker, now)
            if line is not None:
                lines.add(line)
            elif self._lines.is_gone(marker, now):
                gone.append((marker, ErrorCode.NONE))
            else:
                self._rest(marker, "the partition has no leader at the moment", now)
        for line in sorted(lines):
            self._start(line)
        if gone:
            self._nursery.start_soon(self._report_soon, gone)

    def _start(self, line: Line) -> None:
        if self._in_flight[line] < REQUESTS_IN_FLIGHT_MAX and self._lines.has_line(line):
            self._in_flight[line] += 1
            self._nursery.start_soon(self._write_here if line.spu == self._own_id else self._send_to, line)

    async def _write_here(self, line: Line) -> None:
        """Writes the markers for the partitions that this SPU leads."""
        self._in_flight[line] -= 1
        while markers := self._lines.take(line):
            request = request_of(markers, TRANSACTION_VERSION_FROM)
            self._writes_here = True
            self._write_locally(request.markers, partial(self._on_written, markers))
            self._writes_here = False
            self._take_answers()
            if not self._lines.has_line(line):
                break  # each pass through Trio's loop costs as much as a marker
            await trio.lowlevel.checkpoint()

    def _on_written(self, markers: Sequence[WaitingMarker], response: WriteTxnMarkersResponse) -> None:
        if not self._answered and not self._writes_here:
            self._nursery.start_soon(self._take_answers_soon)
        self._answered.append((markers, response))

    async def _take_answers_soon(self) -> None:
        self._take_answers()

    def _take_answers(self) -> None:
        """Handles the responses of this SPU, and ends the turn."""
        answered, self._answered = self._answered, []
        self._report([each for markers, response in answered for each in outcomes(markers, response)])

    async def _send_to(self, line: Line) -> None:
        """Sends markers to another SPU while there are any for it."""
        api = API_TABLE[ApiKey.WRITE_TXN_MARKERS]
        try:
            while markers := self._lines.take(line):
                try:
                    _, response = await self._send_request(line.spu, api, partial(request_of, markers), SECONDS_MAX)
                except OSError as error:
                    now = trio.current_time()
                    for marker in markers:
                        self._rest(marker, str(error), now)
                else:
                    self._report(list(outcomes(markers, response)))
        finally:
            self._in_flight[line] -= 1
        self._start(line)

    async def _report_soon(self, results: Sequence[tuple[WaitingMarker, ErrorCode]]) -> None:
        self._report(results)

    def _report(self, results: Sequence[tuple[WaitingMarker, ErrorCode]]) -> None:
        """Tells coordinators what became of their markers, and ends the turn."""
        now = trio.current_time()
        by_owner: dict[Owner, list[WaitingMarker]] = {}
        for marker, code in results:
            step = MarkerStep.WRITTEN if code == ErrorCode.NONE else step_after(code)
            if step is MarkerStep.WRITTEN:
                by_owner.setdefault(marker.owner, []).append(marker)
            elif step is MarkerStep.RETRY:
                self._rest(marker, code.name, now)
            if code != ErrorCode.NONE and step is not MarkerStep.RETRY:
                self._logger.warning("transaction_marker_refused", **_described(marker, code.name))
        for owner, written in by_owner.items():
            owner.tell(partial(_tell, written))
        self._end_turn()

    # markers that could not be written

    def _rest(self, marker: WaitingMarker, reason: str, now: float) -> None:
        if marker.owner.is_over:
            return
        marker.failures += 1
        if marker.failures == FAILURES_TO_LOG:
            self._logger.warning("transaction_marker_waits", **_described(marker, reason))
        pause = doubled_pause_seconds(marker.failures, self._chance.fraction(), PAUSE_SECONDS_MIN)
        self._lines.rest(marker, now + pause)
        if self._waking is None:
            self._waking = trio.CancelScope()
            self._nursery.start_soon(self._wake_rested)
        elif self._lines.wakes_at == now + pause:
            self._waking.deadline = now + pause

    async def _wake_rested(self) -> None:
        while (wakes_at := self._lines.wakes_at) is not None:
            with trio.CancelScope(deadline=wakes_at) as self._waking:
                await trio.sleep_forever()
            rested = [each for each in self._lines.take_rested(trio.current_time()) if not each.owner.is_over]
            self._line_up(rested)
        self._waking = None


def _described(marker: WaitingMarker, reason: str) -> dict[str, object]:
    topic, partition = marker.partition
    return {
        "transactional_id": marker.transactional_id,
        "topic": topic,
        "partition": partition,
        "reason": reason,
    }


def _tell(written: Sequence[WaitingMarker], coordinator: "TransactionCoordinator", moment: Moment) -> None:
    by_transaction: dict[tuple[str, int, int], list[TopicPartition]] = {}
    for each in written:
        key = each.transactional_id, each.producer_id, each.producer_epoch
        by_transaction.setdefault(key, []).append(each.partition)
    for key, partitions in by_transaction.items():
        coordinator.on_markers_written(*key, partitions, moment)
