"""Frames of the private protocol between SPUs, and a description of frames that do not belong there."""

import struct
from typing import Any, TypeVar

from tailrace.broker.replication.messages import RECORDS_BYTES_MAX
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.compile import decoder, encoder
from tailrace.protocol.codec.primitives import Part
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.internal_apis import PEER_APIS, InternalApiKey

FRAME_BYTES_MAX = RECORDS_BYTES_MAX + 64 * 1024
"""The largest frame: records, and room for the rest of the message. Memory is allocated only for bytes that have
arrived, never for the announced size."""

Wire = TypeVar("Wire")

_VERSION = 0
_SIZE_KEY_AND_VERSION = struct.Struct(">ihh")
_KEY_AND_VERSION = struct.Struct(">hh")
START_BYTES = _KEY_AND_VERSION.size
_KIND_AND_KEY = struct.Struct(">bh")
_KAFKA_VERSION_MAX = 100


def frame(message: Any) -> list[Part]:
    """Encodes a message of a class in PEER_APIS with its frame header."""
    parts: list[Part] = []
    encoder(type(message), _VERSION)(message, parts)
    size = _KEY_AND_VERSION.size + sum(map(len, parts))
    start = _SIZE_KEY_AND_VERSION.pack(size, message.API_KEY, _VERSION)
    if parts:
        first = parts[0]
        assert isinstance(first, bytes)
        parts[0] = start + first
    else:
        parts.append(start)
    return parts


def start_of(cls: Any) -> bytes:
    """Returns the first bytes of frames with a message of this class, after their size."""
    return _KEY_AND_VERSION.pack(cls.API_KEY, _VERSION)


def read_key(received: memoryview) -> InternalApiKey:
    """Returns the kind of message in a frame without its size, if it belongs to this protocol."""
    try:
        api_key, version = _KEY_AND_VERSION.unpack_from(received)
    except struct.error:
        raise RemoteProtocolError("a frame ends within its header") from None
    api = PEER_APIS.get(api_key)
    if api is None:
        raise RemoteProtocolError(_describe_stray_frame(received, api_key, version))
    if not api.min_version <= version <= api.max_version:
        raise RemoteProtocolError(f"{api.name} version {version} is not supported")
    return api.key


def read_body(cls: type[Wire], received: memoryview) -> Wire:
    """Decodes the message in a frame whose key was read."""
    message: Wire = decoder(cls, _VERSION)(received, START_BYTES, len(received))[0]
    return message


def _describe_stray_frame(received: memoryview, api_key: int, version: int) -> str:
    """Describes a frame that does not belong here, so that its sender can be found."""
    if api_key in ApiKey.__members__.values() and 0 <= version <= _KAFKA_VERSION_MAX:
        return f"this port is for SPUs; {ApiKey(api_key).name} version {version} belongs on a public one"
    kind, private_key = _KIND_AND_KEY.unpack_from(received)
    if kind == 0 and private_key in InternalApiKey.__members__.values():
        name = InternalApiKey(private_key).name
        return f"this port is for SPUs; {name} belongs on the private port of a Streaming Controller"
    return f"a message of kind {api_key}, which is not part of the protocol between SPUs"
