"""What is fuzzed: functions that read bytes of clients who have not said who they are.

A target has valid inputs and the errors by which it may refuse an input. Any other error is a bug.
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple

from crc32c import crc32c
from message_samples import all_messages, sample, versions_of

from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.produced_batch import HeavyBatchError, ProduceRules, admit, admit_in_steps
from tailrace.protocol.batches.record_batch import CRC_START
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.codec.compile import Decoder, StepDecoder, decoder, encode, step_decoder
from tailrace.protocol.codec.decoder_source import ELEMENTS_MAX
from tailrace.protocol.codec.headers import RequestHeader, encode_request, read_request_header, read_request_kind
from tailrace.protocol.error_codes import KafkaError, RemoteProtocolError
from tailrace.protocol.internal_apis import SC_OBJECT_APIS, SC_PRIVATE_APIS, SPU_OBJECT_APIS, SPU_PRIVATE_APIS
from tailrace.protocol.steps import finish
from tailrace.server.inbox import Inbox, ReceiveBuffers

SAMPLES = 4
"""How many valid inputs each target makes at a time."""


class Target(NamedTuple):
    """A function that reads an input, valid inputs for it, and the errors that refuse an input."""

    name: str
    read: Callable[[bytes], object]
    samples: Callable[[Random], list[bytes]]
    refusals: tuple[type[Exception], ...] = (RemoteProtocolError,)
    bytes_per_byte_max: int = 200
    """How much memory reading may take at most for each byte of the input, beside a constant."""


def all_targets() -> list[Target]:
    """Returns every target. The decoders come first: one for each version of each request."""
    return [*_decoders(), *_step_decoders(), *_headers(), _framing(), *_batches()]


def _decoders() -> Iterator[Target]:
    for cls in all_messages():
        if not cls.__name__.endswith(("Request", "Message")):
            continue
        for version in versions_of(cls):
            decode = decoder(cls, version)
            yield Target(
                f"{cls.__name__} v{version}", partial(_decode, decode), partial(_sample_requests, cls, version)
            )


def _decode(decode: Any, data: bytes) -> object:
    return decode(memoryview(data), 0)


def _sample_requests(cls: type[Any], version: int, random: Random) -> list[bytes]:
    return [b"".join(encode(sample(cls, version, random), version)) for _ in range(SAMPLES)]  # type: ignore[arg-type]


def _step_decoders() -> Iterator[Target]:
    """One for the newest version of each request of clients. Both decoders of a message have to agree on each input."""
    for api in API_TABLE.values():
        cls, version = api.request, api.max_version
        yield Target(
            f"steps of {cls.__name__} v{version}",
            partial(_decode_in_steps, decoder(cls, version), step_decoder(cls, version)),
            partial(_sample_requests, cls, version),
            bytes_per_byte_max=400,  # both messages are there at once
        )


def _decode_in_steps(decode: Decoder, decode_in_steps: StepDecoder, data: bytes) -> object:
    view = memoryview(data)
    refusal: RemoteProtocolError | None = None
    try:
        expected = decode(view, 0)
    except RemoteProtocolError as error:
        refusal = error
    steps = decode_in_steps(view, 0, ELEMENTS_MAX)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        assert refusal is None, f"only the decoder without steps refuses: {refusal}"
        # A number that is none is not equal to itself, and a view of records does not show what is in it.
        is_equal = end.value == expected or repr(end.value) == repr(expected)
        assert is_equal, "the decoders read different messages"
        return end.value
    except RemoteProtocolError as error:
        assert str(error) == str(refusal), f"in steps it is refused because {error}, else because {refusal}"
        raise


def _headers() -> Iterator[Target]:
    tables = {
        "clients": API_TABLE,
        "SPUs at the SC": SC_PRIVATE_APIS,
        "the SC at SPUs": SPU_PRIVATE_APIS,
        "tools at the SC": SC_OBJECT_APIS,
        "tools at SPUs": SPU_OBJECT_APIS,
    }
    for name, table in tables.items():
        yield Target(f"headers of {name}", partial(_read_header, table), partial(_sample_headers, table))


def _read_header(table: Any, data: bytes) -> object:
    view = memoryview(data)
    read_request_kind(view)
    return read_request_header(view, 0, table)


def _sample_headers(table: Any, random: Random) -> list[bytes]:
    headers = []
    for _ in range(SAMPLES):
        api = random.choice(list(table.values()))
        version = random.randrange(api.min_version, api.max_version + 1)
        length = random.choice((-1, 0, 4, 200))
        client_id = b"c" * max(0, length)
        tags = b"\x02\x00\x01x\x09\x00" if version >= api.flexible_from else b""
        headers.append(struct.pack(">hhih", api.key, version, 7, length) + client_id + tags + b"body")
    return headers


def _framing() -> Target:
    return Target("frames", _read_frames, _sample_frames)


def _read_frames(data: bytes) -> int:
    """Feeds an inbox as a connection does, in receives of odd sizes. Returns the number of requests."""
    inbox = Inbox(_BUFFERS, 100_000)
    requests = position = 0
    try:
        while position < len(data):
            room = inbox.room()
            piece = data[position : position + min(len(room), 777)]
            room[: len(piece)] = piece
            inbox.received(len(piece))
            position += len(piece)
            while inbox.next_request() is not None:
                requests += 1
            inbox.end_turn()
    finally:
        inbox.close()
    return requests


_BUFFERS = ReceiveBuffers(4096, spare_bytes=64 * 1024, spare_from_bytes=8192)


def _sample_frames(random: Random) -> list[bytes]:
    return [b"".join(sample_request(random) for _ in range(random.randrange(1, 6))) for _ in range(SAMPLES)]


def sample_request(random: Random) -> bytes:
    """Returns a whole valid request of any API in any version that clients may use."""
    api = random.choice(list(API_TABLE.values()))
    version = random.randrange(api.min_version, api.max_version + 1)
    message = sample(api.request, version, random)
    header = RequestHeader(ApiKey(api.key), version, random.randrange(1000), "fuzzer")
    return b"".join(encode_request(header, message))  # type: ignore[arg-type]


def _batches() -> Iterator[Target]:
    rules = ProduceRules(batch_bytes_max=1 << 20)
    for kind in Compression:
        yield Target(
            f"batches with {kind.name.lower()}",
            partial(_admit, rules),
            partial(_sample_batches, kind),
            (KafkaError,),
            # A compressed batch may become as large as the rules say.
            bytes_per_byte_max=200 if kind is Compression.NONE else 1 << 17,
        )


def _admit(rules: ProduceRules, data: bytes) -> object:
    """Checks a batch whose checksum is right, because a wrong one would be all that is found."""
    batch = bytearray(data)
    if len(batch) > CRC_START:
        batch[CRC_START - 4 : CRC_START] = crc32c(batch[CRC_START:]).to_bytes(4, "big")
    try:
        return admit(memoryview(batch), rules, api_version=9, now_ms=1_800_000_000_000)
    except HeavyBatchError as heavy:
        return finish(admit_in_steps(batch, heavy.header, rules, now_ms=1_800_000_000_000))


def _sample_batches(kind: Compression, random: Random) -> list[bytes]:
    return [
        bytes(
            build_batch(
                [
                    Record(number, 1_799_999_999_000, key, random.randbytes(random.randrange(20)), _headers_of(random))
                    for number, key in enumerate((b"key", None, b"")[: random.randrange(1, 4)])
                ],
                compression=kind,
            )
        )
        for _ in range(SAMPLES)
    ]


def _headers_of(random: Random) -> list[tuple[str, bytes | None]]:
    return [("name", b"value")] * random.randrange(2)
