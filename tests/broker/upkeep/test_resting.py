import pytest
import trio

from tailrace.broker.upkeep.resting import RECHECK_SECONDS, rest

FOR_EVER = 2.0**63


@pytest.mark.parametrize("seconds", [0.5, RECHECK_SECONDS, 3.5 * RECHECK_SECONDS])
async def test_a_rest_lasts_as_long_as_it_is_to_last(seconds: float, autojump_clock: object) -> None:
    began = trio.current_time()
    await rest(lambda: seconds)
    assert trio.current_time() - began == pytest.approx(seconds)
    await trio.sleep(seconds / 2)
    await rest(lambda: seconds, began + seconds)
    assert trio.current_time() - began == pytest.approx(2 * seconds)


async def test_a_rest_that_was_made_too_long_ends_soon_after_that_is_mended(autojump_clock: object) -> None:
    seconds = [FOR_EVER]
    with trio.fail_after(2 * RECHECK_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rest, lambda: seconds[0])
            await trio.sleep(1)
            seconds[0] = 5.0
