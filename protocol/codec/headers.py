"""Encodes and decodes request and response headers, and whole requests and responses with their size.

The version of a header follows from the API and its version. A request in an unknown version is read up to the client's
name. Each function takes the table of the APIs that are served; the default is Kafka's.
"""

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, TypeAlias

from msgspec import Struct

from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError

from .compile import decode, encode, encoder
from .primitives import TOO_SHORT, Buffer, Part, skip_tagged

_REQUEST = struct.Struct(">hhih")
"""API key, API version, correlation id and length of the client id. That length has the classic encoding in all
versions."""
_KIND = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")
_SIZE_BYTES = 4
_SIZE_AND_RESPONSE = struct.Struct(">ii")
_SIZE_AND_FLEXIBLE_RESPONSE = struct.Struct(">iix")
_SIZE_AND_REQUEST = struct.Struct(">ihhih")
_ERROR_CODE = struct.Struct(">h")

ResponseEncoder: TypeAlias = Callable[[int, Any], list[Part]]
"""Encodes a whole response, with size and header, from the correlation id and the message."""

_JOINED_BYTES_MAX = 64 * 1024
"""A first part up to this size is joined with the header, which is cheaper than sending another part."""


class RequestHeader(Struct):
    """The header of a request that a client sends."""

    api_key: IntEnum
    api_version: int
    correlation_id: int
    client_id: str | None = None


def read_request_header(
    view: memoryview, position: int = 0, table: Mapping[int, Api] = API_TABLE
) -> tuple[IntEnum, int, int, str | None, int]:
    """Returns API key, version, correlation id, client id, and where the body begins. Raises RemoteProtocolError.

    The caller has to check whether the version is served."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(view, position)
        position += _REQUEST.size
        api = table.get(api_key)
        if api is None:
            raise RemoteProtocolError(f"API {_name(api_key)} is not served here")
        client_id = None
        if length >= 0:
            stop = position + length
            if stop > len(view):
                raise RemoteProtocolError(TOO_SHORT)
            client_id = view[position:stop].tobytes().decode("utf-8", "replace")
            position = stop
        if api.flexible_from <= api_version <= api.max_version:
            count = view[position]
            position += 1
            if count:
                position, _ = skip_tagged(view, position, count)
    except (struct.error, IndexError, UnicodeDecodeError) as reason:
        raise RemoteProtocolError(f"malformed request header: {reason}") from None
    return api.key, api_version, correlation_id, client_id, position


def read_request_kind(view: memoryview) -> tuple[int, int, int]:
    """Returns API key, version and correlation id. Raises RemoteProtocolError."""
    try:
        return _KIND.unpack_from(view)
    except struct.error as reason:
        raise RemoteProtocolError(f"malformed request header: {reason}") from None


def response_header(api_key: int, api_version: int, correlation_id: int, table: Mapping[int, Api] = API_TABLE) -> bytes:
    encoded = _CORRELATION_ID.pack(correlation_id)
    return encoded + b"\0" if api_version >= table[api_key].flexible_response_from else encoded


def encode_response(
    api_key: int, api_version: int, correlation_id: int, message: object, table: Mapping[int, Api] = API_TABLE
) -> list[Part]:
    return response_encoder(table[api_key], api_version)(correlation_id, message)


def response_encoder(api: Api, api_version: int) -> ResponseEncoder:
    """Returns the function that encodes the responses of an API in one version. A server keeps it."""
    encode_message = encoder(api.response, api_version)
    header = _SIZE_AND_FLEXIBLE_RESPONSE if api_version >= api.flexible_response_from else _SIZE_AND_RESPONSE
    pack_header = header.pack
    counted = header.size - _SIZE_BYTES

    def encode_response(correlation_id: int, message: Any) -> list[Part]:
        parts: list[Part] = []
        encode_message(message, parts)
        return _with_header(pack_header(counted + _size(parts), correlation_id), parts)

    return encode_response


def response_with_body(api: Api, api_version: int, correlation_id: int, body: bytes) -> bytes:
    """Returns the whole response with a message that is already encoded."""
    header = _SIZE_AND_FLEXIBLE_RESPONSE if api_version >= api.flexible_response_from else _SIZE_AND_RESPONSE
    return header.pack(header.size - _SIZE_BYTES + len(body), correlation_id) + body


def decode_response(
    api_key: int, api_version: int, frame: Buffer, table: Mapping[int, Api] = API_TABLE
) -> tuple[int, Any]:
    """Returns the correlation id and the message of a response, for a client. The frame has no size before it."""
    view = memoryview(frame)
    api = table[api_key]
    header = response_header(api_key, api_version, 0, table)
    if len(view) < len(header):
        raise RemoteProtocolError(TOO_SHORT)
    (correlation_id,) = _CORRELATION_ID.unpack_from(view)
    if api.key is ApiKey.API_VERSIONS and view[4:6] == _ERROR_CODE.pack(ErrorCode.UNSUPPORTED_VERSION):
        api_version = 0
    # We have chosen the broker that responds, so that it may send more elements than an unknown client may.
    return correlation_id, decode(api.response, api_version, view, _end_of_header(view, len(header)), len(view))


def encode_request(header: RequestHeader, message: object, table: Mapping[int, Api] = API_TABLE) -> list[Part]:
    client_id = b"" if header.client_id is None else header.client_id.encode()
    tags = b"\0" if table[header.api_key].is_flexible(header.api_version) else b""
    parts = encode(message, header.api_version)
    fixed = _SIZE_AND_REQUEST.pack(
        _REQUEST.size + len(client_id) + len(tags) + _size(parts),
        header.api_key,
        header.api_version,
        header.correlation_id,
        -1 if header.client_id is None else len(client_id),
    )
    return _with_header(fixed + client_id + tags, parts)


def _size(parts: list[Part]) -> int:
    return len(parts[0]) if len(parts) == 1 else sum(map(len, parts))


def _with_header(header: bytes, parts: list[Part]) -> list[Part]:
    if parts and isinstance(first := parts[0], bytes) and len(first) <= _JOINED_BYTES_MAX:
        parts[0] = header + first
    else:
        parts.insert(0, header)
    return parts


def _end_of_header(view: memoryview, length: int) -> int:
    """Returns where the body of a response begins, after tagged fields that a newer broker may have put into the
    header."""
    if length == _CORRELATION_ID.size:
        return length
    try:
        return skip_tagged(view, length, view[length - 1])[0]
    except IndexError:
        raise RemoteProtocolError(TOO_SHORT) from None


def _name(api_key: int) -> str:
    try:
        return f"{api_key} ({ApiKey(api_key).name})"
    except ValueError:
        return str(api_key)
