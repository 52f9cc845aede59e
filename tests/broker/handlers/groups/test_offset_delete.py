from random import Random

import pytest
from committing import commit, fetch
from group_handlers import GroupHost, response_of
from message_samples import sample

from tailrace.broker.handlers.groups.offset_delete import handle
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


@pytest.fixture
def host() -> GroupHost:
    host = GroupHost()
    host.world.put_topic("orders", 2)
    commit(host.world, "g", {("orders", 0): 5, ("orders", 1): 6})
    return host


def request(group: str = "g") -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(index) for index in (0, 2)]
    return OffsetDeleteRequest(group, [OffsetDeleteRequestTopic("orders", partitions)])


def test_offsets_are_deleted(host: GroupHost) -> None:
    response = response_of(host, handle, request(), 0)
    errors = [(each.partition_index, each.error_code) for each in response.topics[0].partitions]
    assert (response.error_code, errors) == (0, [(0, 0), (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
    assert fetch(host.world, "g") == {("orders", 1): 6}


def test_a_refusal_names_no_partition(host: GroupHost) -> None:
    response = response_of(host, handle, request("nobody"), 0)
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    response = response_of(host, handle, request(), 0)
    assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, [])


@pytest.mark.parametrize("version", range(1))
def test_every_valid_request_gets_a_response(host: GroupHost, version: int) -> None:
    random = Random(version)
    for _ in range(50):
        response_of(host, handle, sample(OffsetDeleteRequest, version, random), version)
    host.world.restart()
