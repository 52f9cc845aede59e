import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.batches.compression import (
    Compression,
    TooLargeError,
    compress,
    decompress,
    decompress_in_steps,
)

PACKING = [kind for kind in Compression if kind is not Compression.NONE]


@given(st.binary(max_size=300), st.integers(1, 3000), st.sampled_from(Compression))
def test_compressed_data_is_restored(piece: bytes, times: int, kind: Compression) -> None:
    data = piece * times
    assert decompress(kind, memoryview(compress(kind, memoryview(data)))) == data


@pytest.mark.parametrize("kind", PACKING)
def test_corrupt_data_is_a_value_error(kind: Compression) -> None:
    packed = compress(kind, b"so many words" * 100)
    for spoilt in (packed[:-5], packed[: len(packed) // 2], b"", b"\xff" * 40):
        with pytest.raises(ValueError):
            decompress(kind, spoilt)


@pytest.mark.parametrize("kind", PACKING)
def test_a_decompression_bomb_is_refused(kind: Compression) -> None:
    bomb = compress(kind, bytes(2**20))
    assert decompress(kind, bomb, 2**20) == bytes(2**20)
    with pytest.raises(TooLargeError):
        decompress(kind, bomb, 2**20 - 1)


def test_snappy_of_every_framing() -> None:
    data = b"one after the other " * 5000
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data
    framed = compress(Compression.SNAPPY, data)
    assert decompress(Compression.SNAPPY, framed + framed) == data * 2
    assert decompress(Compression.SNAPPY, framed + framed[16:]) == data * 2


def test_a_snappy_block_that_claims_to_be_huge_is_refused_before_decompression() -> None:
    claims_four_gigabytes = b"\xff\xff\xff\xff\x0f\x00\x00"
    with pytest.raises(TooLargeError):
        decompress(Compression.SNAPPY, claims_four_gigabytes)


def test_lz4_has_the_frame_that_java_reads() -> None:
    """Java refuses linked blocks. Other libraries must read the same content."""
    data = b"words that repeat, words that repeat " * 10_000
    packed = compress(Compression.LZ4, data)
    assert lz4.frame.get_frame_info(packed)["block_linked"] is False
    assert lz4.frame.decompress(packed) == data
    assert decompress(Compression.LZ4, lz4.frame.compress(data, content_checksum=True)) == data


def test_zstd_of_unknown_size() -> None:
    data = bytes(300_000)
    packer = zstandard.ZstdCompressor().compressobj()
    assert decompress(Compression.ZSTD, packer.compress(data) + packer.flush()) == data


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        (Compression.GZIP, -1),
        (Compression.GZIP, 1),
        (Compression.GZIP, 9),
        (Compression.LZ4, 17),
        (Compression.ZSTD, -131072),
        (Compression.ZSTD, -5),
        (Compression.ZSTD, 22),
    ],
)
def test_compression_levels(kind: Compression, level: int) -> None:
    assert decompress(kind, compress(kind, b"level" * 1000, level)) == b"level" * 1000


def stepped(kind: Compression, data: bytes, limit: int) -> tuple[bytes, int]:
    """Returns the decompressed data and the number of steps."""
    steps, taken = decompress_in_steps(kind, memoryview(data), limit), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bytes(end.value), taken
        taken += 1


@given(st.binary(max_size=300), st.integers(1, 3000), st.sampled_from(Compression))
def test_steps_decompress_the_same(piece: bytes, times: int, kind: Compression) -> None:
    data = piece * times
    assert stepped(kind, compress(kind, data), 2**20)[0] == data


@given(st.binary(max_size=60), st.sampled_from(PACKING), st.integers(0, 60), st.binary(max_size=3))
def test_steps_refuse_the_same(piece: bytes, kind: Compression, at: int, spoil: bytes) -> None:
    packed = compress(kind, piece)
    spoilt = packed[:at] + spoil
    results = []
    for unpack in (lambda: decompress(kind, spoilt, 2**20), lambda: stepped(kind, spoilt, 2**20)[0]):
        try:
            results.append(unpack())
        except ValueError:
            results.append(b"refused")
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", PACKING)
def test_a_bomb_is_decompressed_in_many_steps_up_to_the_limit(kind: Compression) -> None:
    size = 20 * 2**20
    bomb = compress(kind, bytes(size))
    data, taken = stepped(kind, bomb, size)
    assert data == bytes(size)
    assert taken >= size // 2**18
    with pytest.raises(TooLargeError):
        stepped(kind, bomb, size - 1)


@pytest.mark.parametrize("kind", PACKING)
def test_what_is_decompressed_in_steps_is_never_copied(kind: Compression) -> None:
    """A copy of many megabytes would be a long step. tracemalloc does not see the memory of the output itself."""
    size = 20 * 2**20
    bomb = compress(kind, bytes(size))
    tracemalloc.start()
    try:
        for _ in decompress_in_steps(kind, bomb, size):
            pass
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < size / 4


def test_a_bomb_gives_its_memory_back_in_steps() -> None:
    size = 20 * 2**20
    _, whole = stepped(Compression.GZIP, compress(Compression.GZIP, bytes(size)), size)
    steps = decompress_in_steps(Compression.GZIP, compress(Compression.GZIP, bytes(size + 1)), size)
    taken = 0
    with pytest.raises(TooLargeError):
        while True:
            next(steps)
            taken += 1
    assert taken >= whole + 4


@pytest.mark.parametrize("framed", [False, True])
def test_a_large_snappy_block_is_decompressed_into_prepared_memory(framed: bool) -> None:
    data = bytes(2**22)
    packed = compress(Compression.SNAPPY, data) if framed else bytes(cramjam.snappy.compress_raw(data))
    found, taken = stepped(Compression.SNAPPY, packed, len(data))
    assert found == data
    assert taken > 10


def test_several_gzip_streams_are_one() -> None:
    data = bytes(range(256)) * 2000
    packed = compress(Compression.GZIP, data)
    for whole in (packed * 3, packed + compress(Compression.GZIP, b"") + packed):
        assert stepped(Compression.GZIP, whole, 2**21)[0] == decompress(Compression.GZIP, whole)
