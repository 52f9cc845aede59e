"""A producer's usual requests, answered from their bytes.

A client sends the same request again and again, but for its number and its records. Up to the records it is recognised
byte for byte, and was decoded once; its answer was encoded once, but for a few numbers. So no request and no response
becomes an object, which is half of the work that such a request would be. What is unusual in any way, every error for
one, goes the ordinary way: there is nothing here that decides anything.

Where records have to be committed or synced first, the answer is made as well, and waits in line.
"""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from msgspec import Struct

from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.compile import decoder
from tailrace.protocol.error_codes import KafkaError, RemoteProtocolError
from tailrace.protocol.headers import read_request_header, response_encoder
from tailrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.protocol.primitives import read_uvarint, uvarint
from tailrace.server.client_connection import Expect
from tailrace.server.request_context import RequestContext

from .handlers import produce
from .replica import Replica

if TYPE_CHECKING:
    from .spu import Spu

LEARNED_MAX = 64
"""For one connection; a client that varies its requests more than this gains nothing and costs us nothing."""
LEARNED_BYTES_MAX = 1024
"""Of one request up to its records. There may be anything in it: long names, tags of megabytes that mean nothing."""

_API = API_TABLE[ApiKey.PRODUCE]
_AFTER_CORRELATION_ID = 8
_SIZE = struct.Struct(">i")
_TAGS = 3
"""How many there are of partition, topic and request: a byte each behind the records, and none is usual."""
_NUMBER = struct.Struct(">q")
_LOG_START_FROM = 5
_NO_NUMBER = -0x7F01020304050607
"""Stands for numbers in an answer that is made to see where they belong; no name has such bytes."""


class ProduceShortcut:
    """For the requests of one connection in one version."""

    __slots__ = ("_decode", "_ends", "_is_flexible", "_learned", "_left_to_learn", "_spu", "_version")

    def __init__(self, spu: "Spu", api_version: int) -> None:
        self._spu = spu
        self._version = api_version
        self._is_flexible = _API.is_flexible(api_version)
        self._decode = decoder(ProduceRequest, api_version)
        self._learned: dict[bytes, _UsualRequest] = {}
        """By all that stands between the correlation id and the size of the records."""
        self._ends: list[int] = []
        """Where that may end."""
        self._left_to_learn = LEARNED_MAX

    def __call__(self, frame: memoryview, correlation_id: int, expect: Expect) -> bytes | RequestContext | None:
        """The whole response, or its place in line; None when the request is to go the ordinary way, and nothing has
        happened."""
        for end in self._ends:
            usual = self._learned.get(frame[_AFTER_CORRELATION_ID:end].tobytes())
            if usual is not None:
                records = self._records(frame, end)
                return None if records is None else usual.answer(records, correlation_id, expect)
        if self._left_to_learn:
            self._left_to_learn -= 1
            self._learn(frame)
        return None

    def _records(self, frame: memoryview, position: int) -> memoryview | None:
        """What is at the position, and of the size that stands there, if nothing that says anything follows."""
        try:
            if not self._is_flexible:
                (size,) = _SIZE.unpack_from(frame, position)
                position += _SIZE.size
                return frame[position:] if position + size == len(frame) else None
            size_and_one, position = read_uvarint(frame, position)
        except (struct.error, IndexError, RemoteProtocolError):
            return None
        stop = position + size_and_one - 1
        if stop < position or stop + _TAGS != len(frame) or frame[stop] | frame[stop + 1] | frame[stop + 2]:
            return None
        return frame[position:stop]

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
        size_bytes = len(uvarint(size + 1)) + _TAGS if self._is_flexible else _SIZE.size
        end = len(frame) - size - size_bytes
        if end > LEARNED_BYTES_MAX or self._records(frame, end) != data.records:
            return  # there is more in it: tags that are not known here, or bytes behind it
        usual = _UsualRequest(
            self._spu,
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
        "_after",
        "_before",
        "_client_id",
        "_encode",
        "_named",
        "_numbers",
        "_pack",
        "_partition",
        "_size",
        "_spu",
        "_timeout_seconds",
        "_topic",
        "_version",
    )

    def __init__(
        self,
        spu: "Spu",
        api_version: int,
        acks: int,
        timeout_ms: int,
        client_id: str | None,
        topic: str,
        topic_id: UUID,
        partition: int,
    ) -> None:
        self._spu = spu
        self._version = api_version
        self._acks = acks
        self._timeout_seconds = max(timeout_ms, 0) / 1000
        self._client_id = client_id
        self._named = topic, topic_id
        self._topic: str | UUID = topic_id if api_version >= produce.TOPIC_IDS_FROM else topic
        self._partition = partition
        self._encode = response_encoder(_API, api_version)
        self._numbers = 3 if api_version >= _LOG_START_FROM else 2
        response = self._response(PartitionProduceResponse(partition, 0, *(_NO_NUMBER,) * 3))
        encoded = b"".join(part for part in self._encode(0, response) if isinstance(part, bytes))
        before, _, self._after = encoded.partition(_NUMBER.pack(_NO_NUMBER) * self._numbers)
        self._size, self._before = before[: _SIZE.size], before[_SIZE.size + _SIZE.size :]
        self._pack = struct.Struct(f">{_SIZE.size}si{len(self._before)}s{self._numbers}q{len(self._after)}s").pack

    def answer(self, records: memoryview, correlation_id: int, expect: Expect) -> bytes | RequestContext | None:
        acks, spu = self._acks, self._spu
        try:
            replica = produce.writable(spu, self._topic, self._partition, acks)
            base_offset, append_time_ms, awaited = produce.append(
                spu, replica, self._topic, records, self._version, acks
            )
        except KafkaError:
            return None
        numbers = base_offset, append_time_ms, replica.log.log_start
        answer = self._pack(self._size, correlation_id, self._before, *numbers[: self._numbers], self._after)
        if awaited is None:
            return answer
        context = expect(_API.key, self._version, correlation_id, self._client_id, self._encode)
        waiting = _AwaitedAnswer(self, replica, context, answer, numbers)
        context.abandon = waiting.abandon
        produce.wait_until_acknowledged(replica, awaited, acks, waiting)
        spu.deadlines.add(context.arrived + self._timeout_seconds, waiting)
        return context

    def refuse(
        self, context: RequestContext, replica: Replica, numbers: tuple[int, int, int], error: KafkaError
    ) -> None:
        """As on the ordinary way."""
        answer = PartitionProduceResponse(self._partition, 0, *numbers)
        response = self._response(answer)
        produce.refuse(self._spu, context, response, replica, answer, error)
        context.respond(response)

    def _response(self, answer: PartitionProduceResponse) -> ProduceResponse:
        return ProduceResponse([TopicProduceResponse(*self._named, [answer])])


class _AwaitedAnswer(Struct, eq=False):
    """Of a request whose records are not committed yet."""

    _usual: _UsualRequest
    _replica: Replica
    _context: RequestContext
    _answer: bytes
    _numbers: tuple[int, int, int]
    done: bool = False

    def on_acknowledged(self) -> Callable[[], None] | None:
        if self.done:
            return None
        self.done = True
        return self._context.prepare_with((self._answer,))

    def on_refused(self, error: KafkaError) -> None:
        if not self.done:
            self.done = True
            self._usual.refuse(self._context, self._replica, self._numbers, error)

    def on_deadline(self) -> None:
        self.on_refused(produce.not_in_time())

    def abandon(self) -> None:
        self.done = True
