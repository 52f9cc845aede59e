"""Tests of what the coordination of groups adds to that of other things."""

from uuid import UUID

import pytest
import trio
from asking_coordinators import FEW, ask, find, records, replica_of
from spus import led_elsewhere, running_spu

from tailrace.cluster.specs import PartitionSpec, TopicSpec
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


@pytest.mark.parametrize("while_loading", [False, True])
async def test_what_was_committed_for_a_topic_goes_with_it(while_loading: bool, autojump_clock: object) -> None:
    topic = TopicSpec(UUID(int=7), "t", {}, (PartitionSpec(UUID(int=7), "t", 0, SpuId(1), Epoch(0), (), ()),))
    request = OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition()])]
    )
    async with running_spu(broker=FEW) as running:
        spu = running.spu
        await find(running)
        spu.cluster.put_topic(topic)
        assert ask(spu, lambda coordinator, moment, asked: coordinator.offsets.commit(request, 9, asked, moment)).reply
        if while_loading:
            replica = replica_of(spu)
            spec = replica.spec
            led_elsewhere(replica)
            replica.use_spec(spec)
            assert spu.groups.is_loading
        spu.cluster.remove_topic(topic.id)
        await trio.sleep(1)
        (known,) = [each for each in spu.groups.loaded() if each.replica is replica_of(spu)]
        assert "g" not in known.coordinator.offsets.committed
        assert records(spu) == 2
