"""gzip, snappy, lz4 and zstd behind two functions, with a bound on the decompressed size.

The bound is necessary because a few bytes can decompress to gigabytes.
"""

import struct
import zlib
from collections.abc import Callable, Generator, Iterator
from enum import IntEnum

import cramjam

from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.codec.untouched_memory import given_back, untouched

DECOMPRESSED_BYTES_MAX = 128 * 2**20
"""The largest decompressed size. No producer has larger batches by default: Java buffers 32 MiB, and librdkafka sends 1
MB before compression."""

_FIRST_GUESS_RATIO = 4
_FIRST_GUESS_BYTES_MIN = 16 * 1024
_OUTPUT_WAS_TOO_SMALL = "whole buffer"
"""A part of cramjam's error message if the output does not fit; the words are from Rust's standard library."""

_STEP_INPUT_BYTES = 16 * 1024
_STEP_BYTES = 256 * 1024
"""How much is decompressed in a step, which takes less than a millisecond."""
_STEPPED_GUESS_BYTES = 4 * 2**20
_GZIP_WITH_HEADER = 31
"""What zlib takes for the format of gzip with the largest window."""

_GZIP_DEFAULT_LEVEL = -1
"""The default level of zlib, and so of `compression.gzip.level`; cramjam has no negative levels."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS = struct.Struct(">ii").pack(1, 1)
_XERIAL_HEADER_BYTES = 16
_BLOCK_SIZE = struct.Struct(">I")

_LZ4_FRAME_START = bytes.fromhex("04224d18604082")
"""The magic number, and then version 1, independent blocks of up to 64 KiB, and no checksums. Java cannot read linked
blocks, which cramjam's own frames have."""
_LZ4_FRAME_END = bytes(4)
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_BLOCK_SIZE = struct.Struct("<I")
_LZ4_STORED = 0x8000_0000


class Compression(IntEnum):
    """The codecs, numbered as in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_DECOMPRESS_INTO: dict[Compression, Callable[[Buffer, Buffer], int]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


def compress(kind: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compresses data. `level` None is the codec's default. Snappy has no levels, and lz4 has only the fast one
    here."""
    match kind:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(data, None if level == _GZIP_DEFAULT_LEVEL else level))
        case Compression.SNAPPY:
            block = bytes(cramjam.snappy.compress_raw(data))
            return b"".join((_XERIAL_MAGIC, _XERIAL_VERSIONS, _BLOCK_SIZE.pack(len(block)), block))
        case Compression.LZ4:
            return _compress_lz4(data)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level))


def decompress(kind: Compression, data: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Decompresses data. Raises ValueError if the data is corrupt, and TooLargeError if the result exceeds the
    limit."""
    if kind is Compression.NONE:
        return bytes(data)
    if kind is Compression.SNAPPY:
        return _decompress_snappy(bytes(data), limit)
    decompress_into = _DECOMPRESS_INTO[kind]
    capacity = min(limit, max(_FIRST_GUESS_RATIO * len(data), _FIRST_GUESS_BYTES_MIN))
    while True:
        output = bytearray(capacity)
        try:
            count = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_WAS_TOO_SMALL not in str(error):
                raise ValueError(f"{kind.name.lower()}: {error}") from None
        else:
            return bytes(memoryview(output)[:count])
        if capacity >= limit:
            raise _exceeds(kind, limit)
        capacity = min(limit, capacity * _FIRST_GUESS_RATIO)


def decompress_in_steps(kind: Compression, data: Buffer, limit: int) -> Generator[None, None, memoryview]:
    """Decompresses data, and yields after each step. Raises the errors of `decompress`.

    A step of gzip, or of snappy in small blocks, takes less than a millisecond. lz4, zstd and a block of snappy are
    decompressed by one call, because cramjam has no other. The call takes some milliseconds for 32 MiB: its memory has
    been touched before, in steps, which takes longer than to decompress.
    """
    if kind is Compression.NONE:
        return memoryview(data)
    output = untouched(limit)
    try:
        match kind:
            case Compression.GZIP:
                size = yield from _gunzip_in_steps(memoryview(data), output)
            case Compression.SNAPPY:
                size = yield from _decompress_snappy_in_steps(bytes(data), output)
            case Compression.LZ4 | Compression.ZSTD:
                size = yield from _decompress_into_touched(kind, data, output)
    except ValueError:
        yield from given_back(output)
        raise
    return output[:size]


class TooLargeError(ValueError):
    """The decompressed data is too large for one batch."""


def _compress_lz4(data: Buffer) -> bytes:
    parts = [_LZ4_FRAME_START]
    view = memoryview(data)
    for position in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[position : position + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(packed) < len(plain):
            parts += _LZ4_BLOCK_SIZE.pack(len(packed)), packed
        else:
            parts += _LZ4_BLOCK_SIZE.pack(len(plain) | _LZ4_STORED), bytes(plain)
    parts.append(_LZ4_FRAME_END)
    return b"".join(parts)


def _gunzip_in_steps(data: memoryview, output: memoryview) -> Generator[None, None, int]:
    """Returns how much of the output is used, like the functions for the other codecs."""
    position = size = 0
    try:
        while position < len(data) or not position:  # several streams may follow each other
            stream = zlib.decompressobj(_GZIP_WITH_HEADER)
            while not stream.eof:
                piece = stream.unconsumed_tail
                if not piece:
                    piece = bytes(data[position : position + _STEP_INPUT_BYTES])
                    position += len(piece)
                found = stream.decompress(piece, _STEP_BYTES)
                if not piece and not found:
                    raise ValueError("gzip: the data is truncated")
                end = size + len(found)
                if end > len(output):
                    raise _exceeds(Compression.GZIP, len(output))
                output[size:end] = found
                size = end
                yield
            position -= len(stream.unused_data)
    except zlib.error as error:
        raise ValueError(f"gzip: {error}") from None
    return size


def _decompress_into_touched(kind: Compression, data: Buffer, output: memoryview) -> Generator[None, None, int]:
    limit, touched = len(output), 0
    capacity = min(limit, _STEPPED_GUESS_BYTES)
    while True:
        yield from _touch(output[touched:capacity])
        touched = capacity
        try:
            count = _DECOMPRESS_INTO[kind](data, output[:capacity])
        except cramjam.DecompressionError as error:
            if _OUTPUT_WAS_TOO_SMALL not in str(error):
                raise ValueError(f"{kind.name.lower()}: {error}") from None
        else:
            yield
            return count
        if capacity >= limit:
            raise _exceeds(kind, limit)
        yield
        capacity = min(limit, capacity * _FIRST_GUESS_RATIO)


def _touch(output: memoryview) -> Generator[None, None, None]:
    """Lets the system add memory to all of the output."""
    for position in range(0, len(output), _STEP_BYTES):
        piece = output[position : position + _STEP_BYTES]
        piece[:] = bytes(len(piece))
        yield


def _exceeds(kind: Compression, limit: int) -> TooLargeError:
    return TooLargeError(f"{kind.name.lower()}: more than {limit} bytes after decompression")


def _decompress_snappy(data: bytes, limit: int) -> bytes:
    """Decompresses what clients send: Java's clients split the data into blocks in a frame of their own, and others
    send one block without a frame."""
    try:
        if not data.startswith(_XERIAL_MAGIC):
            return _decompress_snappy_block(data, limit)
        blocks = []
        for packed in _xerial_blocks(data):
            block = _decompress_snappy_block(packed, limit)
            limit -= len(block)
            blocks.append(block)
    except cramjam.DecompressionError as error:
        raise _corrupt_snappy(error) from None
    return b"".join(blocks)


def _decompress_snappy_in_steps(data: bytes, output: memoryview) -> Generator[None, None, int]:
    size = 0
    try:
        for packed in _xerial_blocks(data) if data.startswith(_XERIAL_MAGIC) else (data,):
            room = output[size : size + _snappy_block_size(packed, len(output) - size)]
            if len(room) > _STEP_BYTES:
                yield from _touch(room)
            size += cramjam.snappy.decompress_raw_into(packed, room)
            yield
    except cramjam.DecompressionError as error:
        raise _corrupt_snappy(error) from None
    return size


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    """Yields the blocks in the frames of Java's clients."""
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if data.startswith(_XERIAL_MAGIC, position):  # several frames may follow each other
            position += _XERIAL_HEADER_BYTES
            continue
        if len(data) - position < _BLOCK_SIZE.size:
            raise ValueError("snappy: a block is truncated")
        (size,) = _BLOCK_SIZE.unpack_from(data, position)
        position += _BLOCK_SIZE.size
        if size > len(data) - position:
            raise ValueError("snappy: a block is truncated")
        yield data[position : position + size]
        position += size


def _decompress_snappy_block(block: bytes, limit: int) -> bytes:
    _snappy_block_size(block, limit)
    return bytes(cramjam.snappy.decompress_raw(block))


def _snappy_block_size(block: bytes, limit: int) -> int:
    """Returns how large a block says it will be. Raises TooLargeError if that exceeds the limit."""
    size = cramjam.snappy.decompress_raw_len(block)
    if size > limit:
        raise TooLargeError("snappy: larger than allowed after decompression")
    return size


def _corrupt_snappy(error: cramjam.DecompressionError) -> ValueError:
    return ValueError(f"snappy: {error}")
