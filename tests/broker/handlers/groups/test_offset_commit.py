from random import Random

import pytest
from committing import fetch
from group_handlers import GroupHost, response_of
from message_samples import sample

from tailrace.broker.handlers.groups.offset_commit import handle
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


@pytest.fixture
def host() -> GroupHost:
    host = GroupHost()
    host.world.put_topic("orders", 2)
    return host


def request(host: GroupHost, version: int) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(index, 5, committed_metadata="m") for index in (0, 2, 1)]
    if version < 10:
        return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", partitions=partitions)])
    topic_id = host.world.cluster.topics["orders"].id
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions)])


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_in_each_version(host: GroupHost, version: int) -> None:
    asked = request(host, version)
    (topic,) = response_of(host, handle, asked, version).topics
    assert (topic.name, topic.topic_id) == (asked.topics[0].name, asked.topics[0].topic_id)
    errors = [(each.partition_index, each.error_code) for each in topic.partitions]
    assert errors == [(0, 0), (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (1, 0)]
    assert fetch(host.world, "g") == {("orders", 0): 5, ("orders", 1): 5}


@pytest.mark.parametrize("version", range(2, 11))
def test_a_refusal_has_an_error_for_each_partition(host: GroupHost, version: int) -> None:
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    (topic,) = response_of(host, handle, request(host, version), version).topics
    errors = [(each.partition_index, each.error_code) for each in topic.partitions]
    assert errors == [(index, ErrorCode.NOT_COORDINATOR) for index in (0, 2, 1)]


@pytest.mark.parametrize("version", range(2, 11))
def test_every_valid_request_gets_a_response(host: GroupHost, version: int) -> None:
    random = Random(version)
    for number in range(50):
        asked = sample(OffsetCommitRequest, version, random)
        asked.generation_id_or_member_epoch = random.choice((-1, asked.generation_id_or_member_epoch))
        for topic in asked.topics:
            host.world.put_topic(topic.name or f"topic-{number}", 2, topic.topic_id.int or None)
        response_of(host, handle, asked, version)
    assert host.world.log
    before = list(host.world.coordinator.offsets.committed.group_ids())
    host.world.restart()
    assert host.world.coordinator.offsets.committed.group_ids() == before
