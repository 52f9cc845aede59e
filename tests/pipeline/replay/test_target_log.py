from contextlib import aclosing

from grouped_spu import grouped_spu
from replay_samples import sample_records
from spus import ADDRESS

from tailrace.client.log_client import LogClient, ProducerName
from tailrace.client.log_facts import Partition
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.pipeline.replay.target_log import TargetLog
from tailrace.protocol.batches.compression import Compression


async def test_a_batch_that_is_sent_twice_is_stored_once_and_found_among_others(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("copy", 1)
        await spu.produce("copy", 0, 3)
        logs = LogClient(SpuClient(spu.network, [ADDRESS], BOOTSTRAP))
        target = TargetLog(logs, Partition("copy", 0), await logs.producer_name(), Compression.ZSTD)
        records = sample_records(4)
        assert await target.append(records, 0) == 3
        assert await target.append(records, 0) == 3
        await spu.produce("copy", 0, 2)
        assert (await target.ends()).end == 9
        (batch,), reached = await target.landed(0)
        assert (batch.base_sequence, batch.base_offset, batch.last_offset_delta, reached) == (0, 3, 3, 9)
        assert [each.value for each in batch.records] == [each.value for each in records]
        assert [each.timestamp for each in batch.records] == [each.timestamp for each in records]
        another = TargetLog(logs, Partition("copy", 0), ProducerName(10**6, 0), Compression.NONE)
        assert await another.landed(0) == ([], 9)


async def test_records_that_were_deleted_within_a_batch_are_not_there(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("copy", 1)
        logs = LogClient(SpuClient(spu.network, [ADDRESS], BOOTSTRAP))
        target = TargetLog(logs, Partition("copy", 0), await logs.producer_name(), Compression.NONE)
        await target.append(sample_records(4), 0)
        await target.append(sample_records(4), 4)
        await spu.delete_records("copy", 0, 3)
        async with aclosing(target.all_landed(0)) as landed:
            batches = [batch async for some in landed for batch in some]
        assert [[each.offset for each in batch.records] for batch in batches] == [[3], [4, 5, 6, 7]]
        assert [(each.base_sequence, each.last_offset_delta) for each in batches] == [(0, 3), (4, 3)]
