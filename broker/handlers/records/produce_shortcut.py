"""Handles a producer's usual requests from their bytes, without decoding them into objects.

A client sends the same request again and again; only its correlation id and its records differ. A usual request is
recognised byte for byte up to its records. Its first occurrence was decoded, and a response to it encoded; later
responses differ in a few numbers only. Neither the request nor the response becomes an object, which saves half of the
work. Everything unusual, such as any error or the first batch of
a transaction, goes to `produce`.

The shortcut decides nothing itself. It takes the steps of `produce_steps` in the order in which `produce` takes them.
If records have to be committed first, the encoded response waits in line.

Small batches for one partition that have arrived together are appended with one write, and their responses leave
together. Followers get them together as well, and the work per batch is done once for all.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias
from uuid import UUID

from msgspec import Struct

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.batches.record_batch import TRANSACTIONAL, BatchHeader
from tailrace.protocol.batches.records import NO_TIMESTAMP
from tailrace.protocol.codec.compile import decoder
from tailrace.protocol.codec.headers import read_request_header, response_encoder
from tailrace.protocol.codec.primitives import Buffer, uvarint
from tailrace.protocol.error_codes import KafkaError, RemoteProtocolError, TooManyElementsError
from tailrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.server.inbox import ArrivedRequests
from tailrace.server.request_context import RequestContext
from tailrace.server.request_routes import ExpectResponse, JointResponse, MayProduce

from . import produce_steps
from .record_host import ProduceHost

LEARNED_MAX = 64
"""How many requests of one connection are learned. A client that varies its requests more often gains nothing."""
LEARNED_BYTES_MAX = 1024
"""The largest size of a learned request up to its records: it may have long names, or megabytes of unknown tags."""
LEARNED_ELEMENTS_MAX = 2
"""The number of elements of a learned request: one topic with one partition."""
SIZES_MAX = 64
"""For how many request sizes each learned request remembers a pattern, to find requests to append together."""
TOGETHER_MAX = 100
"""How many batches are appended together at most."""
TOGETHER_BYTES_MAX = 16 * 1024
"""The size of all batches that are appended together: they are copied for that."""

_API = API_TABLE[ApiKey.PRODUCE]
_KIND_BYTES = 4
"""The size of API key and version, with which a request begins."""
_AFTER_CORRELATION_ID = 8
"""Where the rest of a request begins: after API key, version and correlation id."""
_SIZE = struct.Struct(">i")
_TAGS = 3
"""The size of three counts of tagged fields, for partition, topic and request, after the records. All are usually 0."""
_UVARINT_BYTES_MAX = 5
_NUMBER = struct.Struct(">q")
_LOG_START_FROM = 5
_PLACEHOLDER = -0x7F01020304050607
"""Stands for the numbers in a response that is encoded to find out where they belong; no name has such bytes."""

_Appended: TypeAlias = tuple[int, int]
"""The correlation id of a request that was carried out, and the base offset of its batch."""
_Numbers: TypeAlias = tuple[int, int]
"""Append time and log start, which are the same for all batches that were appended together."""


class ProduceShortcut:
    """The shortcut for the produce requests of one connection in one version."""

    __slots__ = ("_decode", "_ends", "_host", "_is_flexible", "_learned", "_left_to_learn", "_may_produce", "_version")

    def __init__(self, host: ProduceHost, api_version: int, may_produce: MayProduce | None = None) -> None:
        """`may_produce` tells which requests may be learned; None if all may. Its answers hold while this lives."""
        self._may_produce = may_produce
        self._host = host
        self._version = api_version
        self._is_flexible = _API.is_flexible(api_version)
        self._decode = decoder(ProduceRequest, api_version)
        self._learned: dict[bytes, _UsualRequest] = {}
        """The usual requests, by their bytes between the correlation id and the size of the records."""
        self._ends: list[int] = []
        """The positions at which the size of the records begins in the learned requests."""
        self._left_to_learn = LEARNED_MAX

    def __call__(
        self, frame: memoryview, correlation_id: int, expect: ExpectResponse, following: ArrivedRequests
    ) -> bytes | JointResponse | RequestContext | None:
        """Returns the whole response, or its place in line. Returns None, and has changed nothing, if `produce` has to
        handle the request."""
        for end in self._ends:
            usual = self._learned.get(frame[_AFTER_CORRELATION_ID:end].tobytes())
            if usual is not None:
                records = _records_at(frame, end, self._is_flexible)
                return None if records is None else usual.handle(records, correlation_id, expect, following)
        if self._left_to_learn:
            self._left_to_learn -= 1
            self._learn(frame)
        return None

    def _learn(self, frame: memoryview) -> None:
        """Learns a request, so that the next one like it is handled here. Raises RemoteProtocolError."""
        *_, client_id, position = read_request_header(frame)
        try:
            request, _ = self._decode(frame, position, LEARNED_ELEMENTS_MAX)
        except TooManyElementsError:
            return
        if request.acks not in (1, produce_steps.ACKS_ALL) or len(request.topic_data) != 1:
            return
        (topic,) = request.topic_data
        if len(topic.partition_data) != 1 or topic.partition_data[0].records is None:
            return
        (data,) = topic.partition_data
        named: str | UUID = topic.topic_id if self._version >= produce_steps.TOPIC_IDS_FROM else topic.name
        if self._may_produce is not None and not self._may_produce(named, request.transactional_id):
            return
        size = len(data.records)
        end = len(frame) - size - len(_size_of(size, self._is_flexible)) - (_TAGS if self._is_flexible else 0)
        if end > LEARNED_BYTES_MAX or _records_at(frame, end, self._is_flexible) != data.records:
            return  # the request has more in it: unknown tags, or bytes after its end
        usual = _UsualRequest(
            frame[:end],
            self._host,
            self._version,
            request.acks,
            request.timeout_ms,
            client_id,
            topic.name,
            topic.topic_id,
            data.index,
            request.transactional_id,
        )
        self._learned[frame[_AFTER_CORRELATION_ID:end].tobytes()] = usual
        if end not in self._ends:
            self._ends.append(end)


class _UsualRequest:
    """A learned request to one partition: all requests like it differ only in their correlation ids and records."""

    __slots__ = (
        "_acks",
        "_before",
        "_beginning",
        "_client_id",
        "_encode",
        "_host",
        "_is_flexible",
        "_kind",
        "_named",
        "_numbers",
        "_pack",
        "_pack_rest",
        "_partition",
        "_patterns",
        "_rest",
        "_size",
        "_skipped_requests",
        "_timeout_seconds",
        "_topic",
        "_transactional_id",
        "_version",
    )

    def __init__(
        self,
        beginning: memoryview,
        host: ProduceHost,
        api_version: int,
        acks: int,
        timeout_ms: int,
        client_id: str | None,
        topic: str,
        topic_id: UUID,
        partition: int,
        transactional_id: str | None,
    ) -> None:
        """`beginning` is the request up to the size of the records."""
        self._kind = beginning[:_KIND_BYTES].tobytes()
        self._beginning = beginning[_AFTER_CORRELATION_ID:].tobytes()
        self._is_flexible = _API.is_flexible(api_version)
        self._patterns: dict[int, _Pattern] = {}
        """How to recognise requests like this one, by their size: most requests of a client have one of a few sizes."""
        self._skipped_requests = 0
        """How many of the next requests were already found unfit to be appended together: trying again for each of them
        would cost more than it saves."""
        self._host = host
        self._version = api_version
        self._acks = acks
        self._timeout_seconds = max(timeout_ms, 0) / 1000
        self._client_id = client_id
        self._named = topic, topic_id
        self._topic: str | UUID = topic_id if api_version >= produce_steps.TOPIC_IDS_FROM else topic
        self._partition = partition
        self._transactional_id = transactional_id
        self._encode = response_encoder(_API, api_version)
        response = self._response(PartitionProduceResponse(partition, 0, *(_PLACEHOLDER,) * 3))
        encoded = b"".join(part for part in self._encode(0, response) if isinstance(part, bytes))
        count = 3 if api_version >= _LOG_START_FROM else 2
        before, _, after = encoded.partition(_NUMBER.pack(_PLACEHOLDER) * count)
        self._size, self._before = before[: _SIZE.size], before[_SIZE.size + _SIZE.size :]
        self._pack_rest = partial(_packed_rest, count - 1, after)
        self._numbers: _Numbers = NO_TIMESTAMP, 0
        self._rest = self._pack_rest(self._numbers)
        """The end of a response with these numbers: everything after the base offset."""
        self._pack = struct.Struct(f">{_SIZE.size}si{len(self._before)}sq{len(self._rest)}s").pack

    def handle(
        self, records: memoryview, correlation_id: int, expect: ExpectResponse, following: ArrivedRequests
    ) -> bytes | JointResponse | RequestContext | None:
        acks, host = self._acks, self._host
        now_ms = host.wall_clock.now_ms()
        try:
            replica = produce_steps.find_writable(host, self._topic, self._partition, acks)
            batch, header = produce_steps.check_batch(replica, records, self._version, self._transactional_id, now_ms)
            if self._skipped_requests:
                self._skipped_requests -= 1
            elif not replica.settings.produce.append_time:
                together = self._append_with_following(replica, batch, header, correlation_id, following, now_ms)
                if together is not None:
                    numbers = NO_TIMESTAMP, replica.log.log_start
                    rest = self._rest_with(numbers)
                    pack, size, before = self._pack, self._size, self._before
                    encoded = b"".join([pack(size, number, before, base, rest) for number, base in together])
                    awaited = produce_steps.end_to_await(replica, acks, replica.log.log_end)
                    if awaited is None:
                        return JointResponse(encoded, len(together))
                    return self._await(replica, together, numbers, encoded, awaited, expect)
            base_offset, append_time_ms, awaited = produce_steps.append_batch(
                host, replica, self._topic, batch, header, acks, now_ms
            )
        except KafkaError:
            return None
        numbers = append_time_ms, replica.log.log_start
        encoded = self._pack(self._size, correlation_id, self._before, base_offset, self._rest_with(numbers))
        if awaited is None:
            return encoded
        return self._await(replica, ((correlation_id, base_offset),), numbers, encoded, awaited, expect)

    def _await(
        self,
        replica: Replica,
        appended: Sequence[_Appended],
        numbers: _Numbers,
        encoded: bytes,
        end: int,
        expect: ExpectResponse,
    ) -> RequestContext:
        first, _ = appended[0]
        context = expect(_API.key, self._version, first, self._client_id, self._encode, len(appended))
        waiting = _AwaitedResponses(self, replica, context, encoded, appended, numbers)
        context.abandon = waiting.abandon
        produce_steps.wait_until_acknowledged(replica, end, self._acks, waiting)
        self._host.deadlines.add(context.arrived + self._timeout_seconds, waiting)
        return context

    # several requests at once

    def _append_with_following(
        self,
        replica: Replica,
        batch: Buffer,
        header: BatchHeader,
        correlation_id: int,
        following: ArrivedRequests,
        now_ms: int,
    ) -> Sequence[_Appended] | None:
        """Appends the batch together with those of the following requests like this one. Returns what was appended, or
        None if there is no such request, or no room. If it returns None or raises KafkaError, nothing has changed."""
        room = TOGETHER_BYTES_MAX - len(batch)
        found = self._take_next_like_it(following, replica, header, room, now_ms) if room > 0 else None
        if found is None:
            return None
        batches, headers, ids, taken = [batch], [header], [correlation_id], []
        while found is not None:
            frame, correlation_id, batch, header = found
            taken.append(frame)
            ids.append(correlation_id)
            batches.append(batch)
            headers.append(header)
            room -= len(batch)
            found = None
            if len(ids) < TOGETHER_MAX:
                found = self._take_next_like_it(following, replica, header, room, now_ms)
        is_appended = False
        try:
            is_appended = produce_steps.append_together(self._host, replica, self._topic, batches, headers)
        finally:
            if not is_appended:
                self._skipped_requests = len(taken)
                for frame in reversed(taken):
                    following.put_back(frame)
        if not is_appended:
            return None
        return [(number, each.base_offset) for number, each in zip(ids, headers, strict=True)]

    def _take_next_like_it(
        self, following: ArrivedRequests, replica: Replica, before: BatchHeader, bytes_max: int, now_ms: int
    ) -> tuple[memoryview, int, Buffer, BatchHeader] | None:
        """Takes the next request if it is like this one and its batch follows the one before. Returns the request, its
        correlation id, its batch and its header. Otherwise the request stays where it is."""
        try:
            frame = following.next_request()
        except RemoteProtocolError:  # it is raised again when the requests before it have been handled
            return None
        if frame is None:
            return None
        pattern = self._patterns.get(len(frame)) or self._pattern_for(len(frame))
        if pattern is not None:
            unpack, beginning, end, start, stop = pattern
            kind, correlation_id, its_beginning, its_end = unpack(frame)
            if its_beginning == beginning and its_end == end and kind == self._kind:
                try:
                    batch, header = produce_steps.check_batch(
                        replica, frame[start:stop], self._version, self._transactional_id, now_ms
                    )
                except KafkaError:
                    pass
                else:
                    if len(batch) <= bytes_max and _follows(before, header):
                        return frame, correlation_id, batch, header
        following.put_back(frame)
        return None

    def _pattern_for(self, size: int) -> "_Pattern | None":
        """Makes the pattern for requests of this size. Returns None if no request like this one can have this size."""
        end = _AFTER_CORRELATION_ID + len(self._beginning)
        around = _around_records(size - end, self._is_flexible)
        if around is None:
            return None
        size_of_records, tags = around
        beginning = self._beginning + size_of_records
        start, stop = end + len(size_of_records), size - len(tags)
        layout = struct.Struct(f">{_KIND_BYTES}si{len(beginning)}s{stop - start}x{len(tags)}s")
        if len(self._patterns) >= SIZES_MAX:
            self._patterns.clear()
        pattern = self._patterns[size] = _Pattern(layout.unpack, beginning, tags, start, stop)
        return pattern

    # responses

    def _rest_with(self, numbers: _Numbers) -> bytes:
        if numbers != self._numbers:
            self._numbers = numbers
            self._rest = self._pack_rest(numbers)
        return self._rest

    def refuse(
        self,
        context: RequestContext,
        replica: Replica,
        appended: Sequence[_Appended],
        numbers: _Numbers,
        error: KafkaError,
    ) -> None:
        """Refuses the requests as `produce` does."""
        responses: list[tuple[int, ProduceResponse]] = []
        for correlation_id, base_offset in appended:
            answer = PartitionProduceResponse(self._partition, 0, base_offset, *numbers)
            response = self._response(answer)
            produce_steps.refuse_appended(self._host, context, response, replica, answer, error)
            responses.append((correlation_id, response))
        context.respond_each(responses)

    def _response(self, answer: PartitionProduceResponse) -> ProduceResponse:
        return ProduceResponse([TopicProduceResponse(*self._named, [answer])])


class _Pattern(NamedTuple):
    """Recognises requests of one size that differ only in their correlation ids and their records."""

    unpack: Callable[[Buffer], tuple[bytes, int, bytes, bytes]]
    """Splits a request into kind, correlation id, the bytes up to the records, and the bytes after them."""
    beginning: bytes
    """The bytes between the correlation id and the records."""
    end: bytes
    """The bytes after the records."""
    start: int
    """Where the records begin."""
    stop: int
    """Where the records end."""


class _AwaitedResponses(Struct, eq=False):
    """The encoded responses to requests that were appended together. They leave when all records are acknowledged, or
    each becomes an error."""

    _usual: _UsualRequest
    _replica: Replica
    _context: RequestContext
    _encoded: bytes
    _appended: Sequence[_Appended]
    _numbers: _Numbers
    done: bool = False

    def on_acknowledged(self) -> Callable[[], None] | None:
        if self.done:
            return None
        self.done = True
        return self._context.prepare_with((self._encoded,))

    def on_refused(self, error: KafkaError) -> None:
        if not self.done:
            self.done = True
            self._usual.refuse(self._context, self._replica, self._appended, self._numbers, error)

    def on_deadline(self) -> None:
        self.on_refused(produce_steps.timed_out())

    def abandon(self) -> None:
        self.done = True


def _follows(before: BatchHeader, header: BatchHeader) -> bool:
    """Whether the batch comes from the same producer, and without a gap if that producer is idempotent. A batch outside
    the transaction does not follow one inside."""
    return header.producer_id == before.producer_id and (
        header.producer_id < 0
        or (
            header.producer_epoch == before.producer_epoch
            and header.base_sequence == before.next_sequence
            and not (header.attributes ^ before.attributes) & TRANSACTIONAL
        )
    )


def _packed_rest(count: int, after: bytes, numbers: _Numbers) -> bytes:
    return b"".join(map(_NUMBER.pack, numbers[:count])) + after


# the place of the records in a request


def _records_at(frame: memoryview, position: int, is_flexible: bool) -> memoryview | None:
    """Returns the records, whose size stands at the position, if nothing but empty counts of tagged fields follows
    them."""
    around = _around_records(len(frame) - position, is_flexible)
    if around is None:
        return None
    size, tags = around
    start, stop = position + len(size), len(frame) - len(tags)
    return frame[start:stop] if frame[position:start] == size and frame[stop:] == tags else None


@lru_cache(maxsize=1024)
def _around_records(together: int, is_flexible: bool) -> tuple[bytes, bytes] | None:
    """Returns the bytes directly before and after the records, if these bytes and the records have this size together.
    Returns None if that is impossible."""
    if not is_flexible:
        return (_size_of(together - _SIZE.size, False), b"") if together >= _SIZE.size else None
    for width in range(1, _UVARINT_BYTES_MAX + 1):
        size = together - width - _TAGS
        if size >= 0 and len(encoded := _size_of(size, True)) == width:
            return encoded, bytes(_TAGS)
    return None


def _size_of(records_bytes: int, is_flexible: bool) -> bytes:
    """Encodes the size of the records as it stands before them."""
    return uvarint(records_bytes + 1) if is_flexible else _SIZE.pack(records_bytes)
