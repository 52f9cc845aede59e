"""Tests asking SPUs for their controllers."""

import pytest
import trio
from clusters import address_of
from simulation.network import MemoryNetwork

from tailrace.cli.objects.spu_controllers import SECONDS_MAX, controllers_of
from tailrace.controller.objects.objects import PublicListener, Spu, SpuResolution, SpuSpec, SpuStatus
from tailrace.protocol.ids import SpuId


async def test_an_spu_that_does_not_answer_is_not_waited_for(autojump_clock: object) -> None:
    network = MemoryNetwork()
    silent = await network.listen(address_of(1))
    status = [
        SpuStatus(SpuResolution.ONLINE, listeners=(PublicListener("PUBLIC", f"spu-{spu}", 9005),)) for spu in (1, 2)
    ]
    asked = trio.current_time()
    found = await controllers_of(network, [Spu(SpuSpec(SpuId(spu)), status[spu - 1]) for spu in (1, 2)])
    assert trio.current_time() - asked == pytest.approx(SECONDS_MAX)
    assert found[SpuId(1)] == "the SPU at spu-1:9005 did not answer within 3 s"
    assert str(found[SpuId(2)]).startswith("the SPU at spu-2:9005 does not answer: ")
    silent.close()
