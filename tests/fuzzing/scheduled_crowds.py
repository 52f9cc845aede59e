"""Lets tasks enter a crowd, leave it, and be cancelled, in any order: one at a time has a turn, and everybody gets one.

The large requests of a server take turns in the same crowd.
"""

from collections.abc import Generator
from random import Random

import trio
import trio.testing

from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.server.fairness.crowd import Crowd
from tailrace.server.fairness.large_requests import LargeRequests

SECONDS_MAX = 600


def fuzz_crowds(seed: int, inputs: int) -> tuple[int, list[tuple[str, bytes]]]:
    """Runs schedules. Returns their number, and the bugs: what is wrong, with the schedule."""
    random = Random(seed)
    found: list[tuple[str, bytes]] = []
    trio.run(_run_all, random, inputs, found, clock=trio.testing.MockClock(autojump_threshold=0))
    return inputs, found


async def _run_all(random: Random, inputs: int, found: list[tuple[str, bytes]]) -> None:
    for _ in range(inputs):
        schedule = random.randbytes(random.randrange(1, 24))
        try:
            with trio.fail_after(SECONDS_MAX):
                await _run(schedule)
        except Exception as error:
            found.append((f"{type(error).__name__}: {error}", schedule))


async def _run(schedule: bytes) -> None:
    """Runs a task for each byte, which says when it begins, what it does, and when it is cancelled."""
    crowd = Crowd()
    large = LargeRequests(crowd)
    inside = 0
    finished: list[int] = []

    def take_turn() -> None:
        assert inside == 1, f"{inside} have a turn at once"

    async def member(number: int, byte: int) -> None:
        nonlocal inside
        await trio.sleep(byte & 3)
        with trio.CancelScope(deadline=trio.current_time() + (byte >> 2 & 3) if byte & 0x10 else float("inf")):
            if byte & 0x20:
                await _read_large(large, byte)
            else:
                for _ in range(1 + (byte >> 6)):
                    await crowd.enter(is_new=bool(byte & 0x40))
                    inside += 1
                    try:
                        take_turn()
                        if byte & 0x80:
                            await trio.sleep(1)
                    finally:
                        inside -= 1
                        crowd.leave()
        finished.append(number)

    async with trio.open_nursery() as nursery:
        for number, byte in enumerate(schedule):
            nursery.start_soon(member, number, byte)
    assert len(finished) == len(schedule)
    with trio.fail_after(1):
        await crowd.enter()  # nobody has kept the turn
        crowd.leave()


async def _read_large(large: LargeRequests, byte: int) -> None:
    def steps() -> Generator[None, None, tuple[object, int]]:
        yield
        if byte & 0x80:
            raise RemoteProtocolError("refused")
        return "request", 0

    try:
        assert await large.read_and_handle(steps(), lambda request: request) == "request"
    except RemoteProtocolError:
        assert byte & 0x80
