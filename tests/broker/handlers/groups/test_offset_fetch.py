from random import Random

import pytest
from committing import commit
from group_handlers import GroupHost, looking, response_in_turns_of, response_of, responses_of
from message_samples import sample
from transactional_groups import commit_in_transaction

from tailrace.broker.handlers.groups import offset_fetch
from tailrace.broker.handlers.groups.offset_fetch import handle
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

ONE_GROUP = range(1, 8)
SEVERAL_GROUPS = range(8, 11)


@pytest.fixture
def host() -> GroupHost:
    host = GroupHost()
    host.world.put_topic("orders", 2)
    commit(host.world, "g", {("orders", 0): 5}, leader_epoch=3, metadata="note")
    return host


def of_one_group() -> OffsetFetchRequest:
    return OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [0, 1])])


def of_groups(host: GroupHost, version: int, *groups: str) -> OffsetFetchRequest:
    topic = OffsetFetchRequestTopics("orders", partition_indexes=[0, 1])
    if version == 10:
        topic = OffsetFetchRequestTopics(topic_id=host.world.cluster.topics["orders"].id, partition_indexes=[0, 1])
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=[topic]) for group in groups])


@pytest.mark.parametrize("version", ONE_GROUP)
def test_the_offsets_of_one_group(host: GroupHost, version: int) -> None:
    response = response_of(host, handle, of_one_group(), version)
    (topic,) = response.topics
    found = [
        (each.partition_index, each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code)
        for each in topic.partitions
    ]
    assert found == [(0, 5, 3 if version >= 5 else -1, "note", 0), (1, -1, -1, "", 0)]
    assert (topic.name, response.error_code) == ("orders", 0)


@pytest.mark.parametrize("version", ONE_GROUP)
def test_a_refusal_of_one_group(host: GroupHost, version: int) -> None:
    host.refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
    response = response_of(host, handle, of_one_group(), version)
    if version >= 2:
        assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, [])
    else:
        found = [(each.committed_offset, each.error_code) for each in response.topics[0].partitions]
        assert found == [(-1, ErrorCode.NOT_COORDINATOR)] * 2


@pytest.mark.parametrize("version", ONE_GROUP[1:])
def test_all_offsets_of_one_group(host: GroupHost, version: int) -> None:
    (topic,) = response_of(host, handle, OffsetFetchRequest("g", None), version).topics
    assert [each.committed_offset for each in topic.partitions] == [5]
    assert response_of(host, handle, OffsetFetchRequest("nobody", None), version).topics == []


@pytest.mark.parametrize("version", SEVERAL_GROUPS)
async def test_the_offsets_of_several_groups(host: GroupHost, version: int) -> None:
    response = await response_in_turns_of(host, handle, of_groups(host, version, "g", "nobody", "g"), version)
    assert [(group.group_id, group.error_code) for group in response.groups] == [("g", 0), ("nobody", 0), ("g", 0)]
    found = [[each.committed_offset for each in group.topics[0].partitions] for group in response.groups]
    assert found == [[5, -1], [-1, -1], [5, -1]]
    assert (await response_in_turns_of(host, handle, OffsetFetchRequest(groups=[]), version)).groups == []


@pytest.mark.parametrize("version", SEVERAL_GROUPS)
async def test_a_refusal_of_several_groups(host: GroupHost, version: int) -> None:
    host.refusal = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    response = await response_in_turns_of(host, handle, of_groups(host, version, "g", "h"), version)
    found = [(group.group_id, group.error_code, group.topics) for group in response.groups]
    assert found == [(each, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []) for each in ("g", "h")]


@pytest.mark.parametrize("version", SEVERAL_GROUPS)
async def test_all_offsets_of_several_groups(host: GroupHost, version: int) -> None:
    groups = [OffsetFetchRequestGroup(each, topics=None) for each in ("g", "nobody")]
    response = await response_in_turns_of(host, handle, OffsetFetchRequest(groups=groups), version)
    assert [len(group.topics) for group in response.groups] == [1, 0]
    (topic,) = response.groups[0].topics
    orders = host.world.cluster.topics["orders"].id
    assert topic.name == "orders" if version < 10 else topic.topic_id == orders


@pytest.mark.parametrize("version", range(6, 11))
def test_stable_offsets_wait_for_the_end_of_a_transaction(host: GroupHost, version: int) -> None:
    commit_in_transaction(host.world, "g", {("orders", 1): 6})
    asked = of_one_group() if version in ONE_GROUP else of_groups(host, version, "g")
    asked.require_stable = version >= 7
    responses = responses_of(host, handle, asked, version)
    assert len(responses) == (version < 7)
    host.world.ask(lambda coordinator, moment, waiter: coordinator.on_marker(7, is_commit=True))
    (response,) = responses
    (topic,) = response.topics or response.groups[0].topics
    assert [each.committed_offset for each in topic.partitions] == [5, 6 if version >= 7 else -1]


async def test_the_partitions_that_one_request_may_add_are_bounded(
    host: GroupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch, "REPLY_BYTES_MAX", 1000)
    groups = [OffsetFetchRequestGroup("g", topics=None)] * 30
    response = await response_in_turns_of(host, offset_fetch.handle, OffsetFetchRequest(groups=groups), 9)
    errors = [group.error_code for group in response.groups]
    assert errors[0] == 0 and errors[-1] == ErrorCode.INVALID_REQUEST


async def test_other_tasks_run_between_groups_with_many_offsets(
    host: GroupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch, "BYTES_PER_TURN", 1000)
    groups = [OffsetFetchRequestGroup("g", topics=None)] * 30
    looks: list[int] = []
    async with looking(lambda: looks.append(host.turns_ended)):
        response = await response_in_turns_of(host, handle, OffsetFetchRequest(groups=groups), 9)
    assert [len(group.topics) for group in response.groups] == [1] * 30
    assert any(0 < count < 4 for count in looks)
    assert host.turns_ended == 4


@pytest.mark.parametrize("version", range(1, 11))
async def test_every_valid_request_gets_a_response(host: GroupHost, version: int) -> None:
    random = Random(version)
    for _ in range(50):
        await response_in_turns_of(host, offset_fetch.handle, sample(OffsetFetchRequest, version, random), version)
    host.world.restart()
