"""AddOffsetsToTxn on a whole SPU."""

import pytest
from spus import running_spu
from transaction_clients import transacting

from tailrace.cluster.coordinators import GROUPS_TOPIC, partition_of
from tailrace.protocol.error_codes import ErrorCode


@pytest.mark.parametrize("version", range(5))
async def test_the_partition_of_the_group_becomes_part_of_the_transaction(autojump_clock: object, version: int) -> None:
    """The producer may be the first client that uses groups."""
    async with running_spu() as running:
        producer = await transacting(running)
        assert GROUPS_TOPIC not in running.spu.cluster.topics
        for _ in range(2):
            assert await producer.add_offsets("g", version) == 0
        partitions = len(running.spu.cluster.topics[GROUPS_TOPIC].partitions)
        (topic,) = (await producer.describe()).topics
        assert (topic.topic, topic.partitions) == (GROUPS_TOPIC, [partition_of("g", partitions)])


async def test_a_group_has_a_name(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        assert await producer.add_offsets("") == ErrorCode.INVALID_GROUP_ID
