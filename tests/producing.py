"""Produce requests to a running SPU, and what its logs hold afterwards."""

from simulation.client import WireClient
from spus import RunningSpu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

BY_NAME = 12
"""The last version that names topics by name."""


def request(*records: bytes | None, acks: int = -1, topic: str = "t", timeout_ms: int = 1000) -> ProduceRequest:
    """A request with one batch for each partition, from partition 0 on."""
    data = [PartitionProduceData(partition, each) for partition, each in enumerate(records)]
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


async def ask(client: WireClient, produce: ProduceRequest, version: int = BY_NAME) -> list[PartitionProduceResponse]:
    response: ProduceResponse = await client.request(ApiKey.PRODUCE, version, produce)
    return response.responses[0].partition_responses


def bounds(running: RunningSpu, partition: int = 0) -> tuple[int, int]:
    """The log start and log end of a partition."""
    replica = running.replica("t", partition)
    return replica.log.log_start, replica.log.log_end
