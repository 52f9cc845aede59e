"""Fetch, versions 4–18: whole batches up to the high watermark, from the page cache to the socket.

- v7: incremental sessions (KIP-227), see `fetch_session`. v12: a consumer that read a cut-off epoch is told where it
  diverges. v13: topics by id. v16: who asked the wrong SPU, or knows an epoch that is over, is told who leads now.
- v11: followers serve consumers too, up to the high watermark that they know, and the leader tells a consumer that
  names its rack of a live follower there, with no records (KIP-392). Older versions are sent to the leader, and so is
  whoever asks a follower for what it does not have, and was not sent to it. While nobody leads, nobody follows either.
- A fetch that finds less than min_bytes waits, at most max_wait_ms, and is woken by appends to its partitions. It ends
  early when the answer to a later request of the connection is ready; with Kafka that one waits as long as the fetch.
- Who names itself replica -2, as Kafka's tools do that look into a log, reads from the leader up to its log end, beyond
  what is committed. Such a fetch is not woken by what is appended, but by what is committed, or at its deadline.
- Who names itself replica -3, an SPU that mends its log, reads all that is here, whoever leads or nobody: it can tell
  what it has lost from anything else. Ours.
- What the log here does not have any more, because it was put on shelves, the leader reads through from a store of the
  shelf: as much as fits, and the answer waits for it.
- The first batch is returned even when it is larger than the limits, so that a consumer can always go on (KIP-74).
  Unlike Apache Kafka we never return a part of a batch after it.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from uuid import UUID

import trio
from msgspec import Struct

from tailrace.broker.replicas.deadlines import Timer
from tailrace.broker.replicas.replica import IsolatedError, Replica
from tailrace.cluster.specs import NO_LEADER, PartitionSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import DEBUGGING_REPLICA, MENDING_REPLICA, NO_EPOCH, NO_REPLICA, SpuId
from tailrace.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tailrace.server.request_context import RequestContext

from .fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchedPartition, FetchSession, PartitionKey
from .follower_reads import NO_PREFERENCE, preferred_replica
from .leader_hints import endpoint_of, leader_elsewhere, newest_leader
from .record_host import FetchHost

FOLLOWERS_FROM = 11
TOPIC_IDS_FROM = 13
LEADERS_FROM = 16
LEADER_TOLD_WITH: Mapping[int, Callable[[FetchHost, str | UUID, int], PartitionSpec | None]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: leader_elsewhere,
    # Whoever leads, this SPU itself as well, does so at a later epoch than the consumer knows.
    ErrorCode.FENCED_LEADER_EPOCH: newest_leader,
}
READ_COMMITTED = 1
FEW_PARTITIONS = 16
PAUSE_SECONDS = 50e-6
"""For each partition of a fetch that has looked through all of them in vain, before it looks again. A producer's
request may bring something to each of a thousand, and each says so by itself."""


def handle(
    host: FetchHost, context: RequestContext, request: FetchRequest
) -> FetchResponse | Coroutine[object, object, FetchResponse] | None:
    try:
        fetch = _begin(host, context, request)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    reading = fetch.read()
    if reading.shelved:
        return fetch.read_through(reading)
    if fetch.is_enough(reading) or request.max_wait_ms <= 0:
        return fetch.response(reading)
    fetch.park(trio.current_time() + request.max_wait_ms / 1000)
    return None


def _begin(host: FetchHost, context: RequestContext, request: FetchRequest) -> "Fetch":
    """Resolves the session: which partitions this fetch is about, and how much the response may leave out."""
    uses_topic_ids = context.api_version >= TOPIC_IDS_FROM
    sessions = host.fetch_sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.close(request.session_id)
        wanted = list(_wanted(request, uses_topic_ids))
        is_to_last = request.session_epoch == INITIAL_EPOCH
        session = sessions.create(wanted, uses_topic_ids, trio.current_time()) if is_to_last else None
        return Fetch(host, context, request, wanted, session, incremental=False)
    session = sessions.resume(request.session_id, request.session_epoch, uses_topic_ids, trio.current_time())
    sessions.update(session, _wanted(request, uses_topic_ids), _forgotten(request, uses_topic_ids))
    if not session.partitions:
        sessions.close(session.id)
        return Fetch(host, context, request, [], None, incremental=False)
    return Fetch(host, context, request, list(session), session, incremental=True)


def _wanted(request: FetchRequest, uses_topic_ids: bool) -> Iterator[FetchedPartition]:
    for topic in request.topics:
        name: str | UUID = topic.topic_id if uses_topic_ids else topic.topic
        for partition in topic.partitions:
            yield FetchedPartition(
                (name, partition.partition),
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
            )


def _forgotten(request: FetchRequest, uses_topic_ids: bool) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        name: str | UUID = topic.topic_id if uses_topic_ids else topic.topic
        for partition in topic.partitions:
            yield name, partition


def _names_itself(replica: int, request: FetchRequest) -> bool:
    state = request.replica_state
    return replica in (request.replica_id, NO_REPLICA if state is None else state.replica_id)


class ShelvedPart(Struct, eq=False):
    """What a partition is asked for lies before its log here."""

    replica: Replica
    wanted: FetchedPartition
    data: PartitionData
    bytes_max: int
    end: int
    """No more than is committed by what the consumer is told. A new leader may not know yet that all is which lies on
    shelves, and while they are read more is committed."""


class Reading:
    """What one pass over the partitions found."""

    __slots__ = ("answers_at_once", "bytes", "bytes_left", "found", "shelved")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_left = bytes_max
        """What is on shelves has its room as well, and comes later."""
        self.found: list[tuple[FetchedPartition, PartitionData]] = []
        self.bytes = 0
        self.answers_at_once = False
        """An error, a divergence or a better replica, of which the consumer should hear without waiting."""
        self.shelved: list[ShelvedPart] = []


class Fetch:
    """One fetch request; parked on its partitions while it waits for more bytes."""

    __slots__ = (
        "_bytes_max",
        "_context",
        "_deadline",
        "_find",
        "_has_news",
        "_host",
        "_incremental",
        "_mends",
        "_parked_on",
        "_partitions",
        "_pause",
        "_rack",
        "_reads_uncommitted",
        "_request",
        "_session",
        "done",
    )

    def __init__(
        self,
        host: FetchHost,
        context: RequestContext,
        request: FetchRequest,
        partitions: list[FetchedPartition],
        session: FetchSession | None,
        *,
        incremental: bool,
    ) -> None:
        self._host = host
        self._context = context
        self._request = request
        self._partitions = partitions
        self._session = session
        self._incremental = incremental
        self._mends = _names_itself(MENDING_REPLICA, request)
        self._reads_uncommitted = self._mends or _names_itself(DEBUGGING_REPLICA, request)
        from_followers = context.api_version >= FOLLOWERS_FROM and (self._mends or not self._reads_uncommitted)
        self._find = host.replicas.reading if from_followers else host.replicas.leading
        near = from_followers and host.broker_configs.settings.reads_from_near_replicas
        self._rack = request.rack_id if near else ""
        self._bytes_max = min(request.max_bytes, host.broker_configs.settings.fetch_bytes_max)
        self._parked_on: list[Replica] = []
        self._deadline: Timer | None = None
        self._pause: Timer | None = None
        self._has_news = False
        """Something came while it paused."""
        self.done = False

    def is_enough(self, reading: Reading) -> bool:
        """Whether there is nothing to wait for. Who asks for more bytes than the answer may hold gets what there is."""
        bytes_min = self._request.min_bytes if self._request.min_bytes <= self._bytes_max else 1
        return reading.bytes >= bytes_min or reading.answers_at_once or not self._partitions

    def read(self) -> Reading:
        reading = Reading(self._bytes_max)
        for wanted in self._partitions:
            name, number = wanted.key
            try:
                replica = self._find(name, number, wanted.current_leader_epoch)
                data = self._read_partition(replica, wanted, reading)
            except KafkaError as error:
                if isinstance(error, IsolatedError):
                    self._context.close_after = error.message
                data = PartitionData(
                    partition_index=number,
                    error_code=error.code,
                    high_watermark=-1,
                    records=b"",
                    aborted_transactions=None,
                )
            assert data.records is not None
            size = len(data.records)
            reading.bytes += size
            reading.bytes_left -= size
            if data.error_code or data.diverging_epoch is not None or data.preferred_read_replica != NO_PREFERENCE:
                reading.answers_at_once = True
            reading.found.append((wanted, data))
        return reading

    def _read_partition(self, replica: Replica, wanted: FetchedPartition, reading: Reading) -> PartitionData:
        if not (replica.is_leader or self._mends) and replica.spec.leader in (NO_LEADER, self._host.id):
            # It may have led until it was started again, and told of more than what it now knows to be committed.
            raise replica.not_leader()
        offset = wanted.fetch_offset
        data = PartitionData(
            partition_index=replica.partition,
            high_watermark=replica.high_watermark,
            last_stable_offset=replica.high_watermark,
            log_start_offset=replica.earliest,
            aborted_transactions=[] if self._request.isolation_level == READ_COMMITTED else None,
            records=b"",
        )
        if self._rack:
            data.preferred_read_replica = preferred_replica(replica, self._rack, offset, self._host.cluster.spus)
            if data.preferred_read_replica != NO_PREFERENCE:
                return data
        if replica.is_merging and offset > replica.high_watermark and not self._mends:
            raise replica.not_leading_yet()
        # A follower may lack the end of an epoch that nobody has cut.
        if wanted.last_fetched_epoch != NO_EPOCH and replica.is_leader:
            if wanted.last_fetched_epoch > replica.spec.epoch:
                self._check_verdict(replica)
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {wanted.last_fetched_epoch} has not been yet")
            epoch, end = replica.log.epoch_end(wanted.last_fetched_epoch)
            # The epoch itself may be unknown: where it was recovered at a later one, its records carry that. Who still
            # asks the others may not know yet where it ended, and cuts off nothing that was committed.
            if end < offset and not replica.is_merging:
                self._check_verdict(replica)
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
                return data
        bytes_max = min(wanted.bytes_max, reading.bytes_left)
        end = replica.log.log_end if self._reads_uncommitted else replica.readable_end
        if offset < replica.log.log_start and replica.has_shelves and not self._mends:
            if not replica.is_leader:
                raise replica.not_leader()  # it may not know yet how far all is on shelves
            if offset >= replica.earliest:
                if offset < end:
                    reading.shelved.append(ShelvedPart(replica, wanted, data, bytes_max, end))
                    reading.bytes_left -= max(0, bytes_max)
                return data
        if not replica.log.log_start <= offset <= replica.log.log_end:
            self._check_verdict(replica)
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is outside the log")
        at_least_one = reading.bytes == 0
        if offset < end and (bytes_max > 0 or at_least_one):
            found = replica.read(offset, bytes_max, end, at_least_one=at_least_one)
            if found is not None:
                data.records = found
        elif offset >= end and self._host.isolation.is_cut_off(replica):
            raise replica.isolated_error()
        return data

    async def read_through(self, reading: Reading) -> FetchResponse:
        """What is on shelves, each part as far as it fits in the room that was kept for it."""
        async with trio.open_nursery() as nursery:
            for part in reading.shelved:
                at_least_one = reading.bytes == 0 and part is reading.shelved[0]
                if part.bytes_max > 0 or at_least_one:
                    nursery.start_soon(partial(self._read_through, part, at_least_one=at_least_one))
        for part in reading.shelved:
            assert part.data.records is not None
            reading.bytes += len(part.data.records)
            reading.answers_at_once = reading.answers_at_once or part.data.error_code != ErrorCode.NONE
        return self.response(reading)

    async def _read_through(self, part: ShelvedPart, *, at_least_one: bool) -> None:
        replica, offset, epoch = part.replica, part.wanted.fetch_offset, part.replica.spec.epoch
        try:
            records = await self._host.shelf_reader.read(replica, offset, part.bytes_max, part.end)
            replica.check_leads(epoch)
            if len(records) <= part.bytes_max or at_least_one:
                part.data.records = records
            if not records and offset < (log_start := replica.log.log_start) < part.end:
                part.data.records = replica.read(log_start, part.bytes_max, part.end, at_least_one=at_least_one) or b""
        except KafkaError as error:
            part.data.error_code = error.code

    def _check_verdict(self, replica: Replica) -> None:
        """A consumer that is ahead may have read from another leader. And one that names no rack was sent to no
        follower: it takes this one for the leader, and would begin anew at its word. Who looks for copies wants to know
        what there is here."""
        is_sure = self._host.is_sure_to_lead(replica) if replica.is_leader else self._request.rack_id
        if not (is_sure or self._mends):
            raise replica.not_leader()

    def response(self, reading: Reading) -> FetchResponse:
        self.done = True
        session = self._session
        topics: list[FetchableTopicResponse] = []
        current: FetchableTopicResponse | None = None
        name: str | UUID | None = None
        served: list[PartitionKey] = []
        for wanted, data in reading.found:
            assert data.records is not None
            has_records = len(data.records) > 0
            if session is not None:
                news = wanted.tell(data.high_watermark, data.log_start_offset, data.error_code)
                if has_records:
                    served.append(wanted.key)
                elif (
                    self._incremental
                    and not news
                    and data.diverging_epoch is None
                    and data.preferred_read_replica == NO_PREFERENCE
                ):
                    continue
            if current is None or wanted.key[0] != name:
                name = wanted.key[0]
                current = (
                    FetchableTopicResponse(topic=name)
                    if isinstance(name, str)
                    else FetchableTopicResponse(topic_id=name)
                )
                topics.append(current)
            current.partitions.append(data)
        if session is not None and len(session.partitions) > 1:
            session.served(served)
        self._host.metrics.fetched_bytes += reading.bytes
        response = FetchResponse(session_id=session.id if session is not None else NO_SESSION, responses=topics)
        if reading.answers_at_once and self._context.api_version >= LEADERS_FROM:
            self._tell_leaders(reading, response)
        return response

    def _tell_leaders(self, reading: Reading, response: FetchResponse) -> None:
        leaders: dict[SpuId, None] = {}
        for wanted, data in reading.found:
            find = LEADER_TOLD_WITH.get(data.error_code)
            if find is not None and (found := find(self._host, *wanted.key)) is not None:
                data.current_leader = LeaderIdAndEpoch(found.leader, found.epoch)
                leaders[found.leader] = None
        endpoints = (endpoint_of(self._host, leader, self._context.listener) for leader in leaders)
        response.node_endpoints = [NodeEndpoint(*endpoint) for endpoint in endpoints if endpoint is not None]

    def park(self, deadline: float) -> None:
        for wanted in self._partitions:
            replica = self._host.replicas.find(*wanted.key)
            if replica is not None:
                replica.waiting_fetches[self] = None
                self._parked_on.append(replica)
        self._context.abandon = self._leave
        self._context.hurry = self.on_deadline
        self._deadline = Timer(deadline, self.on_deadline)
        self._host.deadlines.add(deadline, self._deadline)

    def on_advanced(self) -> None:
        """One of the partitions has new records to read, or is gone."""
        if self._pause is not None:
            self._has_news = True
        elif not self.done:
            reading = self.read()
            if self.is_enough(reading):
                self._answer(reading)
            elif len(self._partitions) > FEW_PARTITIONS:
                paused_until = trio.current_time() + len(self._partitions) * PAUSE_SECONDS
                self._pause = Timer(paused_until, self._on_pause_over)
                self._host.deadlines.add(paused_until, self._pause)

    def _on_pause_over(self) -> None:
        self._pause = None
        if self._has_news:
            self._has_news = False
            self.on_advanced()

    def on_deadline(self) -> None:
        self._answer(self.read())

    def _answer(self, reading: Reading) -> None:
        if self.done:
            return  # a disk failed while this was read, and everybody who waited for its replica was told
        self._leave()
        self._context.respond(self.response(reading))

    def _leave(self) -> None:
        self.done = True
        for replica in self._parked_on:
            replica.waiting_fetches.pop(self, None)
        self._parked_on.clear()
        for timer in (self._deadline, self._pause):
            if timer is not None:
                timer.on_time = None  # its partitions and its answer may be many thousands
