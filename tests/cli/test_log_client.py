"""What is asked of logs; how records are shown stands in `test_consume.py`."""

from grouped_spu import grouped_spu
from spus import ADDRESS

from tailrace.cli.log_client import EARLIEST, LATEST, LogClient
from tailrace.cli.log_facts import LogEnds, Partition
from tailrace.cli.server_connection import RefusedError
from tailrace.cli.spu_client import BOOTSTRAP, SpuClient

HERE, THERE = Partition("orders", 0), Partition("orders", 1)


async def test_where_logs_begin_and_end(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.produce("orders", 0, 5, timestamp=1_000)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        client = LogClient(spus)
        nowhere = Partition("nope", 0)
        found = await client.ends([HERE, THERE, nowhere])
        assert (found[HERE], found[THERE]) == (LogEnds(0, 5), LogEnds(0, 0))
        assert isinstance(found[nowhere], RefusedError)
        assert await client.offsets_at([HERE, THERE], 1_002) == {HERE: 2, THERE: -1}
        assert await client.offsets_at([HERE], EARLIEST) == {HERE: 0}
        assert await client.offsets_at([HERE], LATEST) == {HERE: 5}
        # Beyond the end, and of what is not there, nobody can tell the time.
        assert await client.timestamps({HERE: 3, THERE: 9, nowhere: 0}) == {HERE: 1_003, THERE: None, nowhere: None}
        partitions = await client.partitions(["orders", "nope"])
        assert partitions["orders"] == [HERE, THERE]
        assert isinstance(partitions["nope"], RefusedError)
        spus.close()
