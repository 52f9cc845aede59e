import resource
from pathlib import Path

import pytest

from tailrace.protocol.codec.untouched_memory import given_back, untouched


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_it_is_as_large_as_asked_and_can_be_written(size: int) -> None:
    memory = untouched(size)
    assert memory == bytes(size)
    memory[:] = b"x" * size
    assert memory == b"x" * size


def test_it_takes_no_room_before_something_is_written() -> None:
    size = 2**30
    before = _resident_bytes()
    memory = untouched(size)
    memory[-1] = 1
    assert _resident_bytes() - before < size / 4
    assert len(memory) == size


def test_it_is_given_back_in_steps() -> None:
    size = 2**26
    memory = untouched(size)
    memory[:] = b"x" * size
    before = _resident_bytes()
    steps = sum(1 for _ in given_back(memory[: size // 2]))
    assert steps >= 10
    assert before - _resident_bytes() > size / 2
    assert not any(memory[:: 2**12])
    assert sum(1 for _ in given_back(untouched(5000))) == 1
    assert list(given_back(memoryview(b"of another kind"))) == []


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
