"""Appends records that the cluster itself writes to a topic, through its leader: this SPU or another one.

The leader handles them as it does those of a client with acks=all. They are not measured, authorized or audited.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import trio

from tailrace.broker.copies.spu_channels import MakeRequest
from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import NO_LEADER, PartitionSpec, TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.apis import API_TABLE, Api, ApiKey
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.codec.primitives import Part
from tailrace.protocol.error_codes import ErrorCode, KafkaError, known_code
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tailrace.server.request_context import ClientIdentity, RequestContext

from . import produce
from .produce_steps import ACKS_ALL, TOPIC_IDS_FROM
from .record_host import TransactionalProduceHost

PARTITION = 0
"""The partition that gets the records."""
PARTITIONS = 1
"""How many partitions a topic has that does not exist yet."""
TIMEOUT_MS = 5_000
"""How long the leader waits for its followers."""
SECONDS_MAX = 8.0
"""How long another SPU may take to respond."""

Send = Callable[[SpuId, Api, MakeRequest, float], Awaitable[tuple[int, Any]]]
"""Sends a request to another SPU. Returns its version and the response. Raises OSError."""


class OwnRecordsHost(TransactionalProduceHost, Protocol):
    """What this module needs of the SPU."""

    @property
    def broker_configs(self) -> BrokerConfigs:
        """The settings, with the replication factor of new topics."""

    async def create_topics(
        self, topics: Sequence[NewTopic], context: RequestContext | None = None
    ) -> list[TopicSpec | KafkaError]:
        """Creates topics through the Streaming Controller."""

    def end_turn(self) -> None:
        """Sends followers what was appended."""


async def append_own(host: OwnRecordsHost, send: Send, topic: str, key: bytes, values: Sequence[bytes]) -> None:
    """Appends a record for each value to partition 0, and returns when all are committed.

    Creates the topic if it does not exist. Raises OSError; the records may have been appended nevertheless.
    """
    partition = await _found(host, topic)
    if partition.leader == NO_LEADER:
        raise OSError(f"partition {PARTITION} of the topic {topic} has no leader at the moment")
    now_ms = host.wall_clock.now_ms()
    records = build_batch(Record(offset, now_ms, key, value) for offset, value in enumerate(values))

    def request(version: int) -> ProduceRequest:
        data = [PartitionProduceData(PARTITION, records)]
        named = TopicProduceData(topic_id=partition.topic_id, partition_data=data)
        if version < TOPIC_IDS_FROM:
            named = TopicProduceData(topic, partition_data=data)
        return ProduceRequest(None, ACKS_ALL, TIMEOUT_MS, [named])

    if partition.leader == host.id:
        response = await _produce_here(host, request(TOPIC_IDS_FROM))
    else:
        _, response = await send(partition.leader, API_TABLE[ApiKey.PRODUCE], request, SECONDS_MAX)
    _check(topic, response)


async def _found(host: OwnRecordsHost, topic: str) -> PartitionSpec:
    partition = host.cluster.partition(topic, PARTITION)
    if partition is None:
        replicas = host.broker_configs.settings.replication_factor_default
        try:
            (created,) = await host.create_topics([NewTopic(topic, PARTITIONS, replicas)])
        except KafkaError as error:
            created = error
        if isinstance(created, KafkaError) and created.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise OSError(f"the topic {topic} cannot be created: {created}")
        partition = host.cluster.partition(topic, PARTITION)
        if partition is None:
            raise OSError(f"the topic {topic} is being created")
    return partition


async def _produce_here(host: OwnRecordsHost, request: ProduceRequest) -> ProduceResponse:
    """Handles a request of this SPU to itself, and waits for the response."""
    answered, responses = trio.Event(), list[ProduceResponse]()

    def take(correlation_id: int, message: Any) -> list[Part]:
        responses.append(message)
        return []

    context = RequestContext(
        ApiKey.PRODUCE,
        TOPIC_IDS_FROM,
        0,
        None,
        ConnectedListener("PRIVATE", ("", 0)),
        ClientIdentity("itself"),
        trio.current_time(),
        lambda _: answered.set(),
        take,
    )
    reply = produce.handle(host, context, request)
    host.end_turn()
    if isinstance(reply, ProduceResponse):
        return reply
    assert reply is None, "only transactional requests wait for others"
    await answered.wait()
    return responses[0]


def _check(topic: str, response: ProduceResponse) -> None:
    answers: list[PartitionProduceResponse] = [each for one in response.responses for each in one.partition_responses]
    for each in answers:
        if each.error_code != ErrorCode.NONE:
            why = each.error_message or known_code(each.error_code).name
            raise OSError(f"the leader of partition {PARTITION} of the topic {topic} refuses the records: {why}")
    if not answers:
        raise OSError(f"the leader of the topic {topic} has not answered about partition {PARTITION}")
