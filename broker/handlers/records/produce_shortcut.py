"""A producer's usual requests, answered from their bytes.

A client sends the same request again and again, but for its number and its records. Up to the records it is recognised
byte for byte, and was decoded once; its answer was encoded once, but for a few numbers. So no request and no response
becomes an object, which is half of the work that such a request would be. What is unusual in any way, every error for
one, goes the ordinary way: there is nothing here that decides anything.

Where records have to be committed first, the answer is made as well, and waits in line.

Small batches for one partition that have come together are appended with one write, and their answers leave together:
followers are sent them together, too, and what is done for each of them is done once.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias
from uuid import UUID

from msgspec import Struct

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.batches.records import NO_TIMESTAMP
from tailrace.protocol.codec.compile import decoder
from tailrace.protocol.codec.headers import read_request_header, response_encoder
from tailrace.protocol.codec.primitives import Buffer, uvarint
from tailrace.protocol.error_codes import KafkaError, RemoteProtocolError
from tailrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.server.client_connection import AnswersTogether, ArrivedRequests, Expect
from tailrace.server.request_context import RequestContext

from . import produce
from .record_host import ProduceHost

LEARNED_MAX = 64
"""For one connection; a client that varies its requests more than this gains nothing and costs us nothing."""
LEARNED_BYTES_MAX = 1024
"""Of one request up to its records. There may be anything in it: long names, tags of megabytes that mean nothing."""
SIZES_MAX = 64
"""Of requests that may be appended together, for each that was learned."""
TOGETHER_MAX = 100
TOGETHER_BYTES_MAX = 16 * 1024
"""Of batches that are appended together: they are copied for it."""

_API = API_TABLE[ApiKey.PRODUCE]
_KIND_BYTES = 4
"""API key and version."""
_AFTER_CORRELATION_ID = 8
_SIZE = struct.Struct(">i")
_TAGS = 3
"""How many there are of partition, topic and request: a byte each behind the records, and none is usual."""
_UVARINT_BYTES_MAX = 5
_NUMBER = struct.Struct(">q")
_LOG_START_FROM = 5
_NO_NUMBER = -0x7F01020304050607
"""Stands for numbers in an answer that is made to see where they belong; no name has such bytes."""

_Asked: TypeAlias = tuple[int, int]
"""The correlation id of a request that was carried out, and its base offset."""
_Numbers: TypeAlias = tuple[int, int]
"""Append time and log start: they are the same in answers to what was appended together, and in most others."""


class ProduceShortcut:
    """For the requests of one connection in one version."""

    __slots__ = ("_decode", "_ends", "_host", "_is_flexible", "_learned", "_left_to_learn", "_version")

    def __init__(self, host: ProduceHost, api_version: int) -> None:
        self._host = host
        self._version = api_version
        self._is_flexible = _API.is_flexible(api_version)
        self._decode = decoder(ProduceRequest, api_version)
        self._learned: dict[bytes, _UsualRequest] = {}
        """By all that stands between the correlation id and the size of the records."""
        self._ends: list[int] = []
        """Where that may end."""
        self._left_to_learn = LEARNED_MAX

    def __call__(
        self, frame: memoryview, correlation_id: int, expect: Expect, following: ArrivedRequests
    ) -> bytes | AnswersTogether | RequestContext | None:
        """The whole response, or its place in line; None when the request is to go the ordinary way, and nothing has
        happened."""
        for end in self._ends:
            usual = self._learned.get(frame[_AFTER_CORRELATION_ID:end].tobytes())
            if usual is not None:
                records = _records(frame, end, self._is_flexible)
                return None if records is None else usual.answer(records, correlation_id, expect, following)
        if self._left_to_learn:
            self._left_to_learn -= 1
            self._learn(frame)
        return None

    def _learn(self, frame: memoryview) -> None:
        """Takes note of a request as those that are answered here from the next one on. Raises RemoteProtocolError."""
        *_, client_id, position = read_request_header(frame)
        request, _ = self._decode(frame, position)
        if request.acks not in (1, produce.ALL) or len(request.topic_data) != 1:
            return
        (topic,) = request.topic_data
        if len(topic.partition_data) != 1 or topic.partition_data[0].records is None:
            return
        (data,) = topic.partition_data
        size = len(data.records)
        end = len(frame) - size - len(_size_of(size, self._is_flexible)) - (_TAGS if self._is_flexible else 0)
        if end > LEARNED_BYTES_MAX or _records(frame, end, self._is_flexible) != data.records:
            return  # there is more in it: tags that are not known here, or bytes behind it
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
        )
        self._learned[frame[_AFTER_CORRELATION_ID:end].tobytes()] = usual
        if end not in self._ends:
            self._ends.append(end)


class _UsualRequest:
    """To one partition; only the records differ."""

    __slots__ = (
        "_acks",
        "_alike",
        "_before",
        "_beginning",
        "_client_id",
        "_encode",
        "_host",
        "_is_flexible",
        "_kind",
        "_left_alone",
        "_named",
        "_numbers",
        "_pack",
        "_pack_rest",
        "_partition",
        "_rest",
        "_size",
        "_timeout_seconds",
        "_topic",
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
    ) -> None:
        """`beginning` is all up to the size of the records."""
        self._kind = beginning[:_KIND_BYTES].tobytes()
        self._beginning = beginning[_AFTER_CORRELATION_ID:].tobytes()
        self._is_flexible = _API.is_flexible(api_version)
        self._alike: dict[int, _Alike] = {}
        """By their size: most requests of a client are of one size, or of a few."""
        self._left_alone = 0
        """So many that come next could not be appended together with the one before them: nobody tries again, for each
        of them, with all that are behind it."""
        self._host = host
        self._version = api_version
        self._acks = acks
        self._timeout_seconds = max(timeout_ms, 0) / 1000
        self._client_id = client_id
        self._named = topic, topic_id
        self._topic: str | UUID = topic_id if api_version >= produce.TOPIC_IDS_FROM else topic
        self._partition = partition
        self._encode = response_encoder(_API, api_version)
        response = self._response(PartitionProduceResponse(partition, 0, *(_NO_NUMBER,) * 3))
        encoded = b"".join(part for part in self._encode(0, response) if isinstance(part, bytes))
        count = 3 if api_version >= _LOG_START_FROM else 2
        before, _, after = encoded.partition(_NUMBER.pack(_NO_NUMBER) * count)
        self._size, self._before = before[: _SIZE.size], before[_SIZE.size + _SIZE.size :]
        self._pack_rest = partial(_packed_rest, count - 1, after)
        self._numbers: _Numbers = NO_TIMESTAMP, 0
        self._rest = self._pack_rest(self._numbers)
        """Of an answer: all behind the base offset, with these numbers."""
        self._pack = struct.Struct(f">{_SIZE.size}si{len(self._before)}sq{len(self._rest)}s").pack

    def answer(
        self, records: memoryview, correlation_id: int, expect: Expect, following: ArrivedRequests
    ) -> bytes | AnswersTogether | RequestContext | None:
        acks, host = self._acks, self._host
        now_ms = host.wall_clock.now_ms()
        try:
            replica = produce.writable(host, self._topic, self._partition, acks)
            batch, header = produce.admitted(replica, records, self._version, now_ms)
            if self._left_alone:
                self._left_alone -= 1
            elif not replica.settings.produce.append_time:
                together = self._append_with_alike(replica, batch, header, correlation_id, following, now_ms)
                if together is not None:
                    numbers = NO_TIMESTAMP, replica.log.log_start
                    rest = self._rest_with(numbers)
                    pack, size, before = self._pack, self._size, self._before
                    answers = b"".join([pack(size, number, before, base, rest) for number, base in together])
                    awaited = produce.awaited_end(replica, acks, replica.log.log_end)
                    if awaited is None:
                        return AnswersTogether(answers, len(together))
                    return self._await(replica, together, numbers, answers, awaited, expect)
            base_offset, append_time_ms, awaited = produce.append_admitted(
                host, replica, self._topic, batch, header, acks, now_ms
            )
        except KafkaError:
            return None
        numbers = append_time_ms, replica.log.log_start
        answer = self._pack(self._size, correlation_id, self._before, base_offset, self._rest_with(numbers))
        if awaited is None:
            return answer
        return self._await(replica, ((correlation_id, base_offset),), numbers, answer, awaited, expect)

    def _await(
        self,
        replica: Replica,
        asked: Sequence[_Asked],
        numbers: _Numbers,
        answers: bytes,
        end: int,
        expect: Expect,
    ) -> RequestContext:
        first, _ = asked[0]
        context = expect(_API.key, self._version, first, self._client_id, self._encode, len(asked))
        waiting = _AwaitedAnswers(self, replica, context, answers, asked, numbers)
        context.abandon = waiting.abandon
        produce.wait_until_acknowledged(replica, end, self._acks, waiting)
        self._host.deadlines.add(context.arrived + self._timeout_seconds, waiting)
        return context

    # several at once

    def _append_with_alike(
        self,
        replica: Replica,
        batch: Buffer,
        header: BatchHeader,
        correlation_id: int,
        following: ArrivedRequests,
        now_ms: int,
    ) -> Sequence[_Asked] | None:
        """Together with what has come behind it, as far as that is alike. None: that is nothing, or has no room; then
        all is as it was, and so it is when this raises KafkaError."""
        room = TOGETHER_BYTES_MAX - len(batch)
        found = self._next_alike(following, replica, header, room, now_ms) if room > 0 else None
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
                found = self._next_alike(following, replica, header, room, now_ms)
        is_appended = False
        try:
            is_appended = produce.append_together(self._host, replica, self._topic, batches, headers)
        finally:
            if not is_appended:
                self._left_alone = len(taken)
                for frame in reversed(taken):
                    following.put_back(frame)
        if not is_appended:
            return None
        return [(number, each.base_offset) for number, each in zip(ids, headers, strict=True)]

    def _next_alike(
        self, following: ArrivedRequests, replica: Replica, before: BatchHeader, bytes_max: int, now_ms: int
    ) -> tuple[memoryview, int, Buffer, BatchHeader] | None:
        """The next request with its correlation id, batch and header, if it is like this one and its batch goes on from
        the one before; else it stays where it is."""
        try:
            frame = following.next_request()
        except RemoteProtocolError:  # which is found again, behind those before it
            return None
        if frame is None:
            return None
        alike = self._alike.get(len(frame)) or self._alike_of(len(frame))
        if alike is not None:
            unpack, beginning, end, start, stop = alike
            kind, correlation_id, its_beginning, its_end = unpack(frame)
            if its_beginning == beginning and its_end == end and kind == self._kind:
                try:
                    batch, header = produce.admitted(replica, frame[start:stop], self._version, now_ms)
                except KafkaError:
                    pass
                else:
                    if len(batch) <= bytes_max and _goes_on(before, header):
                        return frame, correlation_id, batch, header
        following.put_back(frame)
        return None

    def _alike_of(self, size: int) -> "_Alike | None":
        """None: there can be no such request of this size."""
        end = _AFTER_CORRELATION_ID + len(self._beginning)
        around = _around_records(size - end, self._is_flexible)
        if around is None:
            return None
        size_of_records, tags = around
        beginning = self._beginning + size_of_records
        start, stop = end + len(size_of_records), size - len(tags)
        layout = struct.Struct(f">{_KIND_BYTES}si{len(beginning)}s{stop - start}x{len(tags)}s")
        if len(self._alike) >= SIZES_MAX:
            self._alike.clear()
        alike = self._alike[size] = _Alike(layout.unpack, beginning, tags, start, stop)
        return alike

    # answers

    def _rest_with(self, numbers: _Numbers) -> bytes:
        if numbers != self._numbers:
            self._numbers = numbers
            self._rest = self._pack_rest(numbers)
        return self._rest

    def refuse(
        self,
        context: RequestContext,
        replica: Replica,
        asked: Sequence[_Asked],
        numbers: _Numbers,
        error: KafkaError,
    ) -> None:
        """As on the ordinary way."""
        responses: list[tuple[int, ProduceResponse]] = []
        for correlation_id, base_offset in asked:
            answer = PartitionProduceResponse(self._partition, 0, base_offset, *numbers)
            response = self._response(answer)
            produce.refuse(self._host, context, response, replica, answer, error)
            responses.append((correlation_id, response))
        context.respond_each(responses)

    def _response(self, answer: PartitionProduceResponse) -> ProduceResponse:
        return ProduceResponse([TopicProduceResponse(*self._named, [answer])])


class _Alike(NamedTuple):
    """Requests of one size that differ in their numbers and their records alone."""

    unpack: Callable[[Buffer], tuple[bytes, int, bytes, bytes]]
    """Kind, correlation id, all from there to the records, all behind them."""
    beginning: bytes
    end: bytes
    start: int
    """Of the records."""
    stop: int


class _AwaitedAnswers(Struct, eq=False):
    """Of requests whose records are not committed yet: to all of them when all are, or none is known to be."""

    _usual: _UsualRequest
    _replica: Replica
    _context: RequestContext
    _encoded: bytes
    _asked: Sequence[_Asked]
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
            self._usual.refuse(self._context, self._replica, self._asked, self._numbers, error)

    def on_deadline(self) -> None:
        self.on_refused(produce.not_in_time())

    def abandon(self) -> None:
        self.done = True


def _goes_on(before: BatchHeader, header: BatchHeader) -> bool:
    """Whether the batch is of the same producer, and of an idempotent one the very next."""
    return header.producer_id == before.producer_id and (
        header.producer_id < 0
        or (header.producer_epoch == before.producer_epoch and header.base_sequence == before.next_sequence)
    )


def _packed_rest(count: int, after: bytes, numbers: _Numbers) -> bytes:
    return b"".join(map(_NUMBER.pack, numbers[:count])) + after


# where the records are


def _records(frame: memoryview, position: int, is_flexible: bool) -> memoryview | None:
    """Those of which the size stands at the position, if nothing follows them that says anything."""
    around = _around_records(len(frame) - position, is_flexible)
    if around is None:
        return None
    size, tags = around
    start, stop = position + len(size), len(frame) - len(tags)
    return frame[start:stop] if frame[position:start] == size and frame[stop:] == tags else None


@lru_cache(maxsize=1024)
def _around_records(together: int, is_flexible: bool) -> tuple[bytes, bytes] | None:
    """What stands before records and behind them, where all that has this size. None: nothing can."""
    if not is_flexible:
        return (_size_of(together - _SIZE.size, False), b"") if together >= _SIZE.size else None
    for width in range(1, _UVARINT_BYTES_MAX + 1):
        size = together - width - _TAGS
        if size >= 0 and len(encoded := _size_of(size, True)) == width:
            return encoded, bytes(_TAGS)
    return None


def _size_of(records_bytes: int, is_flexible: bool) -> bytes:
    """As it stands before them."""
    return uvarint(records_bytes + 1) if is_flexible else _SIZE.pack(records_bytes)
