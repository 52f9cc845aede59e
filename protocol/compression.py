"""gzip, snappy, lz4 and zstd behind two functions. What comes out is bounded: a few bytes can unpack to gigabytes."""

from enum import IntEnum
from struct import Struct

import cramjam

from .primitives import Buffer

DECOMPRESSED_BYTES_MAX = 128 * 2**20
"""More than any producer packs into a batch by default: Java buffers 32 MiB, librdkafka sends 1 MB before packing."""

_FIRST_GUESS_RATIO = 4
_FIRST_GUESS_BYTES_MIN = 16 * 1024
_OUTPUT_WAS_TOO_SMALL = "whole buffer"
"""What cramjam says, in the words of Rust's standard library, when the output does not fit."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS = Struct(">ii").pack(1, 1)
_XERIAL_HEADER_BYTES = 16
_BLOCK_SIZE = Struct(">I")


class Compression(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(kind: Compression, data: Buffer, level: int | None = None) -> bytes:
    """`level` None is the codec's own default; snappy has no levels."""
    match kind:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(data, level))
        case Compression.SNAPPY:
            block = bytes(cramjam.snappy.compress_raw(data))
            return b"".join((_XERIAL_MAGIC, _XERIAL_VERSIONS, _BLOCK_SIZE.pack(len(block)), block))
        case Compression.LZ4:
            return bytes(cramjam.lz4.compress(data, level))
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level))


def decompress(kind: Compression, data: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Raises ValueError when the data is damaged, TooLargeError when it is larger than the limit once unpacked."""
    match kind:
        case Compression.NONE:
            return bytes(data)
        case Compression.SNAPPY:
            return _decompress_snappy(bytes(data), limit)
        case Compression.GZIP:
            codec = cramjam.gzip
        case Compression.LZ4:
            codec = cramjam.lz4
        case Compression.ZSTD:
            codec = cramjam.zstd
    capacity = min(limit, max(_FIRST_GUESS_RATIO * len(data), _FIRST_GUESS_BYTES_MIN))
    while True:
        output = bytearray(capacity)
        try:
            count = codec.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_WAS_TOO_SMALL not in str(error):
                raise ValueError(f"{kind.name.lower()}: {error}") from None
        else:
            return bytes(memoryview(output)[:count])
        if capacity >= limit:
            raise TooLargeError(f"{kind.name.lower()}: more than {limit} bytes once unpacked")
        capacity = min(limit, capacity * _FIRST_GUESS_RATIO)


class TooLargeError(ValueError):
    """Honest data perhaps, but not in one batch."""


def _decompress_snappy(data: bytes, limit: int) -> bytes:
    """Java's clients cut the data into blocks, with a frame of their own around them; others send one bare block."""
    try:
        if not data.startswith(_XERIAL_MAGIC):
            return _decompress_snappy_block(data, limit)
        blocks = []
        position = _XERIAL_HEADER_BYTES
        while position < len(data):
            if data.startswith(_XERIAL_MAGIC, position):  # several streams, one after the other
                position += _XERIAL_HEADER_BYTES
                continue
            if len(data) - position < _BLOCK_SIZE.size:
                raise ValueError("snappy: a block is cut short")
            (size,) = _BLOCK_SIZE.unpack_from(data, position)
            position += _BLOCK_SIZE.size
            if size > len(data) - position:
                raise ValueError("snappy: a block is cut short")
            block = _decompress_snappy_block(data[position : position + size], limit)
            limit -= len(block)
            blocks.append(block)
            position += size
    except cramjam.DecompressionError as error:
        raise ValueError(f"snappy: {error}") from None
    return b"".join(blocks)


def _decompress_snappy_block(block: bytes, limit: int) -> bytes:
    """The length that the block claims is believed only as far as the limit."""
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise TooLargeError("snappy: larger than allowed once unpacked")
    return bytes(cramjam.snappy.decompress_raw(block))
