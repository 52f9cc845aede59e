"""Fetch, versions 4–18: whole batches up to the high watermark, from the page cache to the socket.

- v7: incremental sessions (KIP-227), see `fetch_sessions`. v12: a consumer that read a truncated epoch learns where its
  log diverges. v13: topics by id. v16: a client that asked the wrong SPU, or that knows an old epoch, learns which SPU
  leads.
- v11: followers serve consumers as well, up to the high watermark that they know. The leader sends a consumer that
  names its rack to a live follower there, without records (KIP-392). A follower sends older versions to the leader, and
  any consumer that asks for records which it lacks. While a partition has no leader, no follower serves it.
- A client with replica id -2, such as Kafka's tools that look into a log, reads from the leader up to the log end,
  beyond what is committed. Its fetch wakes when records are committed, or at its deadline, but not for each append.
- An SPU that repairs its log has replica id -3 (not in Kafka). It reads everything that is stored here, whether this
  SPU leads or not: it can recognise the batches that it has lost.
- If the requested records are only on shelves, the leader reads through: it reads them from a store of the shelf, as
  many as fit, and the response waits for them.
- A consumer that reads committed transactions only (isolation level 1) gets records up to the last stable offset, from
  leaders, followers and shelves alike. The response lists the aborted transactions of these records, with absolute
  offsets and sorted by them. The last stable offset is in every response.
- The first batch is returned even if it is larger than the limits, so that a consumer can always go on (KIP-74). Unlike
  Apache Kafka, Tailrace never returns a part of a batch after it.
- A client with quotas gets at most as many bytes as its window allows. If it has used up a quota, the response has no
  records, and says how long to wait.

A fetch that finds less than min_bytes waits, at most max_wait_ms (a long poll). If `fetch_room` has no room for it, its
connection waits a moment instead. For all others, these places take part:

- `Fetch.wait` enters the fetch into `Replica.waiting_fetches` of each of its partitions, and into the SPU's
  `Deadlines`.
- `Spu.end_turn` calls `Replica.on_advanced` for the replicas that were appended to and whose readable end is the log
  end. When the high watermark advances, or the replica's role or state changes, replication and `Replica` itself call
  it.
- `Replica.on_advanced` calls `Fetch.on_advanced`, which reads again and responds if it found enough. A fetch of many
  partitions then pauses, because each partition calls it by itself.
- `Deadlines` calls `Fetch.on_deadline`, which responds with what there is.
- The client's connection calls `RequestContext.hurry`, which is `on_deadline` as well, if the response to a later
  urgent request is ready. In Kafka that response waits as long as the fetch.
- The client's connection calls `RequestContext.abandon`, which is `Fetch._stop_waiting`, if the client has
  disconnected.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from uuid import UUID

import trio
from msgspec import Struct

from tailrace.broker.replicas.append_samples import AppendSamples
from tailrace.broker.replicas.deadlines import Timer
from tailrace.broker.replicas.replica import IsolatedError, Replica
from tailrace.cluster.specs import NO_LEADER, PartitionSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import DEBUGGING_REPLICA, NO_EPOCH, NO_REPLICA, REPAIRING_REPLICA, SpuId
from tailrace.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tailrace.runtime.file_range import FileRange
from tailrace.server.request_context import RequestContext

from .fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchedPartition, FetchSession, PartitionKey
from .follower_reads import NO_PREFERENCE, preferred_replica
from .leader_hints import endpoint_of, leader_elsewhere, newest_leader
from .record_host import FetchHost

FOLLOWERS_FROM = 11
TOPIC_IDS_FROM = 13
LEADERS_FROM = 16
_LEADER_HINTS: Mapping[int, Callable[[FetchHost, str | UUID, int], PartitionSpec | None]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: leader_elsewhere,
    # The leader may be this SPU: its epoch is later than the one that the consumer knows.
    ErrorCode.FENCED_LEADER_EPOCH: newest_leader,
}
"""How to find the leader that a response with each of these errors names."""
READ_COMMITTED = 1
FEW_PARTITIONS = 16
"""A fetch of more partitions pauses after it has read all of them in vain."""
PAUSE_SECONDS = 50e-6
"""How long that pause is for each partition of the fetch. One produce request may append to a thousand partitions, and
each of them wakes the fetch by itself."""
NO_ROOM_SECONDS = 0.1
"""How long a fetch waits at most that may not wait for records. Without it, its client would ask again and again."""


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
    if not fetch.finds_room():
        return fetch.read_again(min(request.max_wait_ms / 1000, NO_ROOM_SECONDS))
    fetch.wait(trio.current_time() + request.max_wait_ms / 1000)
    return None


def _begin(host: FetchHost, context: RequestContext, request: FetchRequest) -> "Fetch":
    """Makes the fetch. The session says which partitions it reads, and what its response may leave out."""
    uses_topic_ids = context.api_version >= TOPIC_IDS_FROM
    sessions = host.fetch_sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.close(request.session_id)
        wanted = list(_wanted(request, uses_topic_ids))
        wants_session = request.session_epoch == INITIAL_EPOCH
        session = sessions.create(wanted, uses_topic_ids, trio.current_time()) if wants_session else None
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


def _aborted_in(replica: Replica, found: FileRange, start: int, end: int) -> list[AbortedTransaction]:
    return [AbortedTransaction(each.producer_id, each.first_offset) for each in replica.aborted_in(found, start, end)]


def _names_itself(replica: int, request: FetchRequest) -> bool:
    state = request.replica_state
    return replica in (request.replica_id, NO_REPLICA if state is None else state.replica_id)


class ShelvedPart(Struct, eq=False):
    """The part of a fetch that asks for records before the local log start, which only shelves have."""

    replica: Replica
    wanted: FetchedPartition
    data: PartitionData
    bytes_max: int
    end: int
    """Where the part ends: at the high watermark or the last stable offset that the response tells. A new leader may
    not know yet that everything on shelves is committed, and more is committed while the shelves are read."""


class Reading:
    """The result of one pass over the partitions of a fetch."""

    __slots__ = ("bytes", "bytes_left", "found", "responds_at_once", "sampled", "shelved")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_left = bytes_max
        """The room that is left in the response. Records on shelves have their room reserved, and are read later."""
        self.found: list[tuple[FetchedPartition, PartitionData]] = []
        self.bytes = 0
        self.responds_at_once = False
        """Whether there is an error, a divergence or a better replica, which the consumer should know without
        waiting."""
        self.shelved: list[ShelvedPart] = []
        self.sampled: list[tuple[AppendSamples, int, int]] | None = None
        """Ranges of offsets that are sent and may contain sampled records; None if there are none."""


class Fetch:
    """One fetch request, which may wait for more bytes."""

    __slots__ = (
        "_bytes_max",
        "_context",
        "_deadline",
        "_find",
        "_has_news",
        "_host",
        "_incremental",
        "_partitions",
        "_pause",
        "_places",
        "_rack",
        "_reads_committed",
        "_reads_uncommitted",
        "_repairs",
        "_request",
        "_session",
        "_waits_on",
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
        self._repairs = _names_itself(REPAIRING_REPLICA, request)
        self._reads_committed = request.isolation_level == READ_COMMITTED
        self._reads_uncommitted = self._repairs or _names_itself(DEBUGGING_REPLICA, request)
        from_followers = context.api_version >= FOLLOWERS_FROM and (self._repairs or not self._reads_uncommitted)
        self._find = host.replicas.reading if from_followers else host.replicas.leading
        near = from_followers and host.broker_configs.settings.reads_from_near_replicas
        self._rack = request.rack_id if near else ""
        self._bytes_max = min(request.max_bytes, host.broker_configs.settings.fetch_bytes_max)
        if context.meter is not None:
            self._bytes_max = min(self._bytes_max, context.meter.bytes_max)
        self._waits_on: list[Replica] = []
        self._places = 0
        """How many places it takes in the room for waiting fetches."""
        self._deadline: Timer | None = None
        self._pause: Timer | None = None
        self._has_news = False
        """Whether a partition has advanced during the pause."""
        self.done = False

    def is_enough(self, reading: Reading) -> bool:
        """Whether the response need not wait. A client that asks for more bytes than a response may hold gets what
        there is."""
        bytes_min = self._request.min_bytes if self._request.min_bytes <= self._bytes_max else 1
        return reading.bytes >= bytes_min or reading.responds_at_once or not self._partitions

    def read(self) -> Reading:
        reading = Reading(self._bytes_max)
        may_read = self._context.may_read
        for wanted in self._partitions:
            name, number = wanted.key
            try:
                if may_read is not None and not may_read(name):
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the client may not read the topic")
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
                reading.responds_at_once = True
            reading.found.append((wanted, data))
        return reading

    def _read_partition(self, replica: Replica, wanted: FetchedPartition, reading: Reading) -> PartitionData:
        if not (replica.is_leader or self._repairs) and replica.spec.leader in (NO_LEADER, self._host.id):
            # This SPU may have led before a restart, and may have told clients of more than it now knows to be
            # committed.
            raise replica.not_leader()
        offset = wanted.fetch_offset
        stable_offset = replica.last_stable_offset
        data = PartitionData(
            partition_index=replica.partition,
            high_watermark=replica.high_watermark,
            last_stable_offset=stable_offset,
            log_start_offset=replica.earliest,
            aborted_transactions=[] if self._reads_committed else None,
            records=b"",
        )
        if self._rack:
            data.preferred_read_replica = preferred_replica(replica, self._rack, offset, self._host.cluster.spus)
            if data.preferred_read_replica != NO_PREFERENCE:
                return data
        if replica.is_merging and offset > replica.high_watermark and not self._repairs:
            raise replica.not_leading_yet()
        # Only the leader decides this: a follower may simply lack the end of an epoch that no leader has truncated.
        if wanted.last_fetched_epoch != NO_EPOCH and replica.is_leader:
            if wanted.last_fetched_epoch > replica.spec.epoch:
                self._check_verdict(replica)
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {wanted.last_fetched_epoch} has not begun yet")
            epoch, end = replica.log.epoch_end(wanted.last_fetched_epoch)
            # The log may not know the epoch itself: if its records were recovered in a later epoch, they carry the
            # later one. A leader that still merges does not know yet where the epoch ended, and must not make a
            # consumer discard committed records.
            if end < offset and not replica.is_merging:
                self._check_verdict(replica)
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
                return data
        bytes_max = min(wanted.bytes_max, reading.bytes_left)
        if self._reads_uncommitted:
            end = replica.log.log_end
        else:
            end = stable_offset if self._reads_committed else replica.readable_end
        if offset < replica.log.log_start and replica.has_shelves and not self._repairs:
            if not replica.is_leader:
                raise replica.not_leader()  # a follower may not know yet what is on shelves
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
                if self._reads_committed:
                    data.aborted_transactions = _aborted_in(replica, found, offset, end)
                samples = replica.append_samples
                if samples is not None and samples.newest >= offset and 2 * len(found) <= bytes_max:
                    self._note_sampled(reading, replica, samples, offset, end)
        elif offset >= end and self._host.isolation.is_isolated(replica):
            raise replica.isolated_error()
        return data

    def _note_sampled(self, reading: Reading, replica: Replica, samples: AppendSamples, offset: int, end: int) -> None:
        """Notes a read that has reached the readable end: it found much less than there was room for."""
        if replica.is_leader and not self._reads_uncommitted:
            if reading.sampled is None:
                reading.sampled = []
            reading.sampled.append((samples, offset, end))

    def _count_deliveries(self, sampled: list[tuple[AppendSamples, int, int]]) -> None:
        """Counts how long the sampled records took that are sent now."""
        now = trio.current_time()
        for samples, start, end in sampled:
            for appended_at in samples.appended_at(start, end):
                self._host.metrics.deliveries.count(now - appended_at)

    async def read_through(self, reading: Reading) -> FetchResponse:
        """Reads all parts that are on shelves, each as far as it fits into the room reserved for it, and makes the
        response."""
        async with trio.open_nursery() as nursery:
            for part in reading.shelved:
                at_least_one = reading.bytes == 0 and part is reading.shelved[0]
                if part.bytes_max > 0 or at_least_one:
                    nursery.start_soon(partial(self._read_through, part, at_least_one=at_least_one))
        for part in reading.shelved:
            assert part.data.records is not None
            reading.bytes += len(part.data.records)
            reading.responds_at_once = reading.responds_at_once or part.data.error_code != ErrorCode.NONE
        return self.response(reading)

    async def _read_through(self, part: ShelvedPart, *, at_least_one: bool) -> None:
        replica, offset, epoch = part.replica, part.wanted.fetch_offset, part.replica.spec.epoch
        try:
            records, aborted = await self._host.shelf_reads.read(replica, offset, part.bytes_max, part.end)
            replica.check_leads(epoch)
            if len(records) <= part.bytes_max or at_least_one:
                part.data.records = records
                if self._reads_committed:
                    part.data.aborted_transactions = [AbortedTransaction(*each) for each in aborted]
            if not records and offset < (log_start := replica.log.log_start) < part.end:
                found = replica.read(log_start, part.bytes_max, part.end, at_least_one=at_least_one)
                part.data.records = found or b""
                if found is not None and self._reads_committed:
                    part.data.aborted_transactions = _aborted_in(replica, found, log_start, part.end)
        except KafkaError as error:
            part.data.error_code = error.code

    def _check_verdict(self, replica: Replica) -> None:
        """Raises KafkaError unless the consumer may be told that its offset or epoch does not exist.

        A consumer that is ahead may have read from a later leader, so that a leader without a lease must not tell it. A
        consumer without a rack was not sent to this follower: it takes the follower for the leader, and would reset its
        position. An SPU that repairs its log wants to know what is stored here.
        """
        is_sure = self._host.is_sure_to_lead(replica) if replica.is_leader else self._request.rack_id
        if not (is_sure or self._repairs):
            raise replica.not_leader()

    def response(self, reading: Reading) -> FetchResponse:
        self.done = True
        session = self._session
        if self._context.meter is not None and self._context.meter.hold_back(reading.bytes):
            return self._held_back()
        topics: list[FetchableTopicResponse] = []
        current: FetchableTopicResponse | None = None
        name: str | UUID | None = None
        served: list[PartitionKey] = []
        for wanted, data in reading.found:
            assert data.records is not None
            has_records = len(data.records) > 0
            if session is not None:
                news = wanted.note_told(data.high_watermark, data.log_start_offset, data.error_code)
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
            session.move_to_end(served)
        self._host.metrics.fetched_bytes += reading.bytes
        if reading.sampled is not None:
            self._count_deliveries(reading.sampled)
        response = FetchResponse(session_id=session.id if session is not None else NO_SESSION, responses=topics)
        if reading.responds_at_once and self._context.api_version >= LEADERS_FROM:
            self._add_leader_hints(reading, response)
        return response

    def _held_back(self) -> FetchResponse:
        """Makes the response for a client that has used up its quota: without records, and without news.

        A new session would not know what the client knows, so that none begins.
        """
        session = self._session
        if session is None:
            return FetchResponse()
        if self._incremental:
            return FetchResponse(session_id=session.id)
        self._host.fetch_sessions.close(session.id)
        return FetchResponse()

    def _add_leader_hints(self, reading: Reading, response: FetchResponse) -> None:
        leaders: dict[SpuId, None] = {}
        for wanted, data in reading.found:
            find = _LEADER_HINTS.get(data.error_code)
            if find is not None and (found := find(self._host, *wanted.key)) is not None:
                data.current_leader = LeaderIdAndEpoch(found.leader, found.epoch)
                leaders[found.leader] = None
        endpoints = (endpoint_of(self._host, leader, self._context.listener) for leader in leaders)
        response.node_endpoints = [NodeEndpoint(*endpoint) for endpoint in endpoints if endpoint is not None]

    def finds_room(self) -> bool:
        """Whether it may wait, for which it then has room until it stops waiting."""
        self._places = self._host.fetch_room.take(self._context.client.connection, len(self._partitions))
        return self._places > 0

    async def read_again(self, seconds: float) -> FetchResponse:
        """Makes the response after a moment in which the connection handles nothing else, so that it has no more than
        one such fetch."""
        await trio.sleep(seconds)
        return self.response(self.read())

    def wait(self, deadline: float) -> None:
        for wanted in self._partitions:
            replica = self._host.replicas.find(*wanted.key)
            if replica is not None:
                replica.waiting_fetches[self] = None
                self._waits_on.append(replica)
        self._context.abandon = self._stop_waiting
        self._context.hurry = self.on_deadline
        self._deadline = Timer(deadline, self.on_deadline)
        self._host.deadlines.add(deadline, self._deadline)

    def on_advanced(self) -> None:
        """Reads again: a partition has new records to read, or does not serve this fetch any more."""
        if self._pause is not None:
            self._has_news = True
        elif not self.done:
            reading = self.read()
            if self.is_enough(reading):
                self._respond(reading)
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
        self._respond(self.read())

    def _respond(self, reading: Reading) -> None:
        if self.done:
            return  # a disk failed during the read, so that the replica went offline and woke this fetch
        self._stop_waiting()
        self._context.respond(self.response(reading))

    def _stop_waiting(self) -> None:
        self.done = True
        if self._places:
            self._host.fetch_room.give_back(self._context.client.connection, self._places)
            self._places = 0
        for replica in self._waits_on:
            replica.waiting_fetches.pop(self, None)
        self._waits_on.clear()
        for timer in (self._deadline, self._pause):
            if timer is not None:
                timer.on_expired = None  # the heap must not keep many thousands of partitions and their response
