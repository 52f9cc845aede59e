"""Tests the creation of the topics of failed records, with a real SPU and SC."""

import structlog
from grouped_spu import grouped_spu
from spus import ADDRESS
from structlog.testing import capture_logs

from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.trigger.replica.side_topics import SideTopics


async def test_a_topic_is_created_once_after_its_model(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 3)
        with capture_logs() as logged:
            for _ in range(2):  # two replicas
                topics = SideTopics(SpuClient(spu.network, [ADDRESS], BOOTSTRAP), "orders", structlog.get_logger())
                await topics.ensure("orders.billing.retry")
                await topics.ensure("orders.billing.retry")
                topics.close()
        assert len(spu.running.spu.cluster.topics["orders.billing.retry"].partitions) == 3
        told = [each for each in logged if each["event"] == "side_topic_created"]
        assert [(each["created"], each["model"]) for each in told] == [("orders.billing.retry", "orders")]
