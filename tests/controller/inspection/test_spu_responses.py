import pytest
import trio
from controller_model import custom
from msgspec.structs import replace

from tailrace.controller.inspection.spu_responses import NoResponseError, response_of
from tailrace.controller.objects.objects import SpuResolution, SpuStatus
from tailrace.controller.state.events import Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.ids import SpuId
from tailrace.server.private_link import LinkClosed

ONE, TWO, THREE = map(SpuId, (1, 2, 3))


async def _ask(spu: SpuId, request: str) -> str:
    return f"{request} {spu}"


async def _ask_in_vain(spu: SpuId, request: str) -> str:
    raise LinkClosed("the stream has broken")


async def _ask_a_mute(spu: SpuId, request: str) -> str:
    await trio.sleep_forever()
    raise AssertionError


def _local() -> LocalStore:
    """Returns a store in which SPU 1 is online and SPU 2 is not."""
    local = LocalStore()
    online = SpuStatus(SpuResolution.ONLINE, "first", "a")
    local.apply(Stored(replace(custom(ONE), status=online, version=1)))
    local.apply(Stored(replace(custom(TWO), version=2)))
    return local


async def test_an_answer_is_handed_on() -> None:
    assert await response_of(ONE, "hello", _ask, _local(), 2) == "hello 1"


@pytest.mark.parametrize(
    ("spu", "ask", "seconds", "why"),
    [
        (TWO, _ask, 0, "SPU 2 is not online"),
        (THREE, _ask, 0, "SPU 3 is not online"),
        (ONE, _ask_in_vain, 0, "the stream has broken"),
        (ONE, _ask_a_mute, 2.5, "SPU 1 did not respond within 2.5 s"),
    ],
)
async def test_an_spu_that_does_not_respond_is_described_as_such(
    autojump_clock: object, spu: SpuId, ask: object, seconds: float, why: str
) -> None:
    began = trio.current_time()
    with pytest.raises(NoResponseError) as caught:
        await response_of(spu, "hello", ask, _local(), 2.5)  # type: ignore[arg-type]
    assert str(caught.value) == why
    assert trio.current_time() - began == pytest.approx(seconds)
