import json

import pytest
from public_sc import public_sc, tailrace

from tailrace.cli.objects.connection_commands import connection_table


async def test_the_streams_to_the_spus_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        for spu in (1, 2):
            await sc.running.objects.create("spu", json.dumps({"spuId": spu}), 0)
        await sc.running.connect(2)
        assert await tailrace(sc.network, "connection", "list") == 0
        assert capsys.readouterr().out == (
            "SPU  FROM         ENCRYPTION  VERSION  SINCE  LEASE  PARTITIONS  METADATA  UP TO DATE\n"
            "  2  spu-2:40000  PLAINTEXT   1.2.3    1 m    1.2 s           2         7  yes\n"
        )
        assert await tailrace(sc.network, "connection", "list", "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert (document["name"], document["status"]["leaseMsLeft"]) == ("2", 1200)


@pytest.mark.parametrize(
    ("connected_ms", "shown"), [(400, "0 s"), (59_000, "59 s"), (3_600_000, "1 h"), (200_000_000, "2 d")]
)
def test_durations_are_shown_in_the_largest_unit(connected_ms: int, shown: str) -> None:
    assert shown in connection_table([{"status": {"connectedMs": connected_ms}}])
