"""The messages between a pool and its workers, and how they follow each other in a stream of bytes.

A message is its size in four bytes, and then MessagePack. The batches of a `Work` follow the message as they are, so
that neither side encodes them.
"""

import struct
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource
from tailrace.trigger.work import Chunk, Outcome, Settled

_SIZE = struct.Struct("<I")
SIZE_BYTES = _SIZE.size
MESSAGE_BYTES_MAX = 1 << 30
"""The largest message of a worker: an event may emit some very large records."""


class Start(Struct, frozen=True, tag=True, array_like=True):
    """The first message to a worker."""

    source: FunctionSource
    config: TriggerConfig
    worker_id: int
    log_level: str
    log_json: bool


class Work(Struct, frozen=True, tag=True, array_like=True):
    """A chunk to handle, without its batches."""

    number: int
    """The number of the chunk in the pool."""
    chunk: Chunk
    sizes: tuple[int, ...]
    """The sizes of the batches that follow."""

    def with_batches(self, batches: Sequence[bytes]) -> Chunk:
        """Returns the whole chunk."""
        return replace(self.chunk, batches=batches)


class Stop(Struct, frozen=True, tag=True, array_like=True):
    """The last message to a worker, which then ends."""


class Ready(Struct, frozen=True, tag=True, array_like=True):
    """The worker has loaded the function."""


class CannotStart(Struct, frozen=True, tag=True, array_like=True):
    """The function cannot be loaded, or `init_context` has failed. The worker ends."""

    message: str


class Done(Struct, frozen=True, tag=True, array_like=True):
    """What became of a chunk. A chunk that was revoked has no outcome."""

    number: int
    outcome: Outcome | None


class SettledLater(Struct, frozen=True, tag=True, array_like=True):
    """Open events of earlier chunks that were acknowledged."""

    events: tuple[Settled, ...]


ToWorker = Start | Work | Stop
FromWorker = Ready | CannotStart | Done | SettledLater

_encoder = msgspec.msgpack.Encoder()
_to_worker = msgspec.msgpack.Decoder(ToWorker)
_from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)


def work_of(number: int, chunk: Chunk) -> Work:
    """Makes the message for a chunk."""
    return Work(number, replace(chunk, batches=()), tuple(map(len, chunk.batches)))


def encode(message: ToWorker | FromWorker) -> bytes:
    """Encodes a message with its size."""
    content = _encoder.encode(message)
    return _SIZE.pack(len(content)) + content


def size_in(head: bytes) -> int:
    """Returns the size of a message, which its first bytes contain."""
    (size,) = _SIZE.unpack(head)
    return int(size)


def decode_to_worker(content: bytes) -> ToWorker:
    message: ToWorker = _to_worker.decode(content)
    return message


class FrameInbox:
    """Cuts the messages of a worker out of the bytes that arrive."""

    def __init__(self) -> None:
        self._received = bytearray()

    def add(self, data: bytes) -> list[FromWorker]:
        """Takes bytes, and returns the messages that are complete now."""
        received = self._received
        received += data
        messages = []
        position = 0
        while len(received) - position >= SIZE_BYTES:
            (size,) = _SIZE.unpack_from(received, position)
            if size > MESSAGE_BYTES_MAX:
                raise msgspec.DecodeError(f"a message cannot have {size} bytes")
            end = position + SIZE_BYTES + size
            if len(received) < end:
                break
            with memoryview(received) as view:
                messages.append(_from_worker.decode(view[position + SIZE_BYTES : end]))
            position = end
        del received[:position]
        return messages
