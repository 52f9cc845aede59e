"""DescribeProducers, version 0: the producers that wrote to a partition, and their open transactions.

Any replica responds, as in Kafka. A follower may lack what the leader has appended since.
"""

from tailrace.broker.handlers.records.record_host import ReplicasHost
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tailrace.server.request_context import RequestContext

PRODUCERS_MAX = 10_000
"""How many producers one response describes. Open transactions come first, and then the producers that wrote last."""
_NONE = -1


def handle(host: ReplicasHost, context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    room = PRODUCERS_MAX
    response = DescribeProducersResponse()
    for topic in request.topics:
        partitions: list[PartitionResponse] = []
        for number in topic.partition_indexes:
            answer = _describe(host, topic.name, number, room)
            room -= len(answer.active_producers)
            partitions.append(answer)
        response.topics.append(TopicResponse(topic.name, partitions))
    return response


def _describe(host: ReplicasHost, topic: str, partition: int, producers_max: int) -> PartitionResponse:
    try:
        replica = host.replicas.reading(topic, partition)
    except KafkaError as error:
        return PartitionResponse(partition, error.code, error.message or None)
    if not producers_max:
        return PartitionResponse(partition, ErrorCode.NONE, None, [])
    states = replica.log.producers
    chosen = dict.fromkeys(states.open_transactions)
    for producer_id, _ in reversed(list(states)):
        if len(chosen) >= producers_max:
            break
        chosen[producer_id] = None
    described: list[ProducerState] = []
    for producer_id, producer in states:
        if producer_id in chosen and len(described) < producers_max:
            first_offset = states.open_transaction(producer_id)
            described.append(
                ProducerState(
                    producer_id=producer_id,
                    producer_epoch=producer.epoch,
                    last_sequence=producer.batches[-1].last_sequence if producer.batches else _NONE,
                    last_timestamp=producer.newest_ms,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_start_offset=_NONE if first_offset is None else first_offset,
                )
            )
    return PartitionResponse(partition, ErrorCode.NONE, None, described)
