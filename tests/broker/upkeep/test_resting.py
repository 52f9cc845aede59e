import pytest
import trio

from tailrace.broker.upkeep.resting import RECHECK_SECONDS, rest

FOR_EVER = 2.0**63


@pytest.mark.parametrize("seconds", [0.5, RECHECK_SECONDS, 3.5 * RECHECK_SECONDS])
async def test_a_rest_lasts_as_long_as_configured(seconds: float, autojump_clock: object) -> None:
    began = trio.current_time()
    await rest(lambda: seconds)
    assert trio.current_time() - began == pytest.approx(seconds)
    await trio.sleep(seconds / 2)
    await rest(lambda: seconds, began + seconds)
    assert trio.current_time() - began == pytest.approx(2 * seconds)


async def test_a_rest_ends_soon_after_it_is_configured_to_be_shorter(autojump_clock: object) -> None:
    seconds = [FOR_EVER]
    with trio.fail_after(2 * RECHECK_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rest, lambda: seconds[0])
            await trio.sleep(1)
            seconds[0] = 5.0
