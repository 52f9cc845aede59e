import json

import pytest
import trio
from administered import administered, through_brokers


async def test_the_brokers_of_a_cluster_are_listed_with_their_addresses(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with administered(1, 2) as (cluster, _):
        assert await through_brokers(cluster, "spu", "list") == 0
        assert capsys.readouterr().out == (
            "ID  RACK  STATUS  PUBLIC\n 1     -  Online  spu-1:9005\n 2     -  Online  spu-2:9005\n"
        )
        await cluster.kill_spu(2)
        await trio.sleep(10)
        assert await through_brokers(cluster, "spu", "list", "--output", "json") == 0
        found = json.loads(capsys.readouterr().out)
        assert [(each["id"], each["status"]) for each in found] == [(1, "Online"), (2, "Offline")]
