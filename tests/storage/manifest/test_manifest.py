"""Facts about a replica are read back, and ignored if they are damaged."""

import pytest
from msgspec.structs import replace

from tailrace.storage.manifest import manifest
from tailrace.storage.manifest.leader_epochs import EpochStart
from tailrace.storage.manifest.manifest import Manifest, SegmentFacts

SEALED = SegmentFacts(0, 100, 3, 5000, 0xFFFFFFFF, 17, 2**62, 4, 1, 2, 4321, 9)
CLOSED = SegmentFacts(100, 120, 4, 700, 5)
FULL = Manifest(
    log_start=12,
    epochs=[EpochStart(3, 12), EpochStart(4, 100)],
    sealed={0: SEALED},
    closed=CLOSED,
    flushed_end=120,
)


@pytest.mark.parametrize("content", [Manifest(), FULL, Manifest(log_start=2**62)])
def test_a_manifest_is_read_back(content: Manifest) -> None:
    assert manifest.decode(manifest.encode(content)) == content


def test_later_lines_override_earlier_ones() -> None:
    other = replace(SEALED, end=90)
    lines = [
        manifest.start_line(20),
        manifest.sealed_line(other),
        manifest.flushed_line(130),
        manifest.closed_line(replace(CLOSED, end=130)),
        manifest.epoch_line(EpochStart(5, 120)),
    ]
    found = manifest.decode(manifest.encode(FULL) + b"".join(lines))
    assert found.log_start == 20
    assert found.sealed == {0: other}
    assert found.flushed_end == 130
    assert found.closed is not None
    assert found.closed.end == 130
    assert found.epochs[-1] == EpochStart(5, 120)


def test_an_unfinished_line_is_no_line() -> None:
    data = manifest.encode(FULL)
    for size in range(len(manifest.start_line(99))):
        assert manifest.decode(data + manifest.start_line(99)[:size]) == FULL


def test_every_flipped_bit_is_found() -> None:
    data = bytearray(manifest.encode(FULL))
    for position in range(len(data) - 1):  # without its line end the last line counts as absent
        for bit in (1, 0x20):
            data[position] ^= bit
            found = manifest.decode(bytes(data))
            assert found.damaged_lines or found != FULL, f"position {position}"
            data[position] ^= bit


def test_a_damaged_line_takes_no_other_with_it() -> None:
    lines = manifest.encode(FULL).splitlines(keepends=True)
    index = next(index for index, line in enumerate(lines) if b"sealed" in line)
    lines[index] = lines[index].replace(b"100", b"101")
    found = manifest.decode(b"".join(lines))
    assert found == replace(FULL, sealed={}, damaged_lines=1)


def test_zeros_and_other_rubbish_are_damaged_lines() -> None:
    found = manifest.decode(bytes(50) + b"\n\nrubbish\n" + manifest.start_line(7) + bytes(9))
    assert found == Manifest(log_start=7, damaged_lines=3)
