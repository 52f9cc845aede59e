"""A small portion of `make fuzz`, and the fuzzer itself: it finds bugs that are planted."""

import signal
from collections.abc import Iterator
from random import Random

import pytest

from tailrace.protocol.error_codes import RemoteProtocolError

from .runner import TookTooLongError, fuzz, raise_too_long
from .targets import Target

INPUTS = 20_000
KEPT: list[bytes] = []


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, raise_too_long)
    yield
    signal.signal(signal.SIGALRM, before)


def test_mutated_inputs_are_read_or_refused_in_bounded_time_and_memory() -> None:
    outcome = fuzz(INPUTS, seed=1, round_inputs=15)
    assert not outcome.failures, "\n".join(map(str, outcome.failures))
    assert INPUTS / 4 < outcome.refused < INPUTS * 3 / 4, "inputs must be almost right"


def _refuse(data: bytes) -> None:
    raise RemoteProtocolError("refused")


def _fail(data: bytes) -> None:
    if len(data) != 4:
        raise IndexError("beyond the end")


def _allocate(data: bytes) -> None:
    bytearray(1 << 20)


def _keep(data: bytes) -> None:
    KEPT.append(bytes(data))


@pytest.mark.parametrize(
    ("read", "reason"),
    [(_fail, "IndexError: beyond the end"), (_allocate, "of memory"), (_keep, "blocks of memory were kept")],
    ids=["an error", "memory", "kept memory"],
)
def test_a_planted_bug_is_found(read, reason) -> None:
    outcome = fuzz(10_000, 1, targets=[Target("planted", read, lambda random: [random.randbytes(4) for _ in range(4)])])
    KEPT.clear()
    assert any(reason in failure.reason for failure in outcome.failures)


def test_inputs_follow_from_the_seed() -> None:
    def inputs(seed: int) -> list[bytes]:
        seen: list[bytes] = []
        target = Target("seen", seen.append, lambda random: [random.randbytes(20)])
        fuzz(500, seed, targets=[target])
        return seen

    assert inputs(1) == inputs(1) != inputs(2)


def test_an_input_that_does_not_end_is_a_failure() -> None:
    def hang(data: bytes) -> None:
        raise TookTooLongError

    assert "did not end" in fuzz(1, 1, targets=[Target("hang", hang, lambda random: [b"x"])]).failures[0].reason


def test_a_refusal_is_no_failure() -> None:
    target = Target("refuse", _refuse, lambda random: [Random(random.random()).randbytes(4)])
    outcome = fuzz(200, 1, targets=[target])
    assert (outcome.refused, outcome.failures) == (200, [])
