from uuid import UUID

import pytest

from tailrace.broker.groups.offsets.committed_offsets import CommittedOffset, CommittedOffsets
from tailrace.broker.groups.offsets.offset_fetching import ResponseBudget, fetch_all, fetch_requested
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.codec.primitives import NO_UUID
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics

ORDERS, OLD_ORDERS, UNKNOWN = (UUID(int=number) for number in (1, 2, 3))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.put_topic(TopicSpec(ORDERS, "orders", {}, ()))
    return cluster


@pytest.fixture
def committed() -> CommittedOffsets:
    committed = CommittedOffsets()
    committed.put("g", "orders", 0, CommittedOffset(5, 1, "note", 1000, topic_id=ORDERS))
    committed.put("g", "orders", 1, CommittedOffset(6, topic_id=OLD_ORDERS))
    committed.put("g", "orders", 2, CommittedOffset(7))
    committed.put("g", "deleted", 0, CommittedOffset(8, topic_id=OLD_ORDERS))
    return committed


def asked(*topics: OffsetFetchRequestTopics) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup("g", topics=list(topics))


def test_by_name(cluster: Cluster, committed: CommittedOffsets) -> None:
    group = asked(OffsetFetchRequestTopics("orders", partition_indexes=[0, 1, 2, 3, 0]))
    (topic,) = fetch_requested(group, committed, cluster, False, ResponseBudget(10_000))
    found = [(each.partition_index, each.committed_offset, each.error_code) for each in topic.partitions]
    assert topic.name == "orders"
    assert found == [(0, 5, 0), (1, -1, 0), (2, 7, 0), (3, -1, 0), (0, 5, 0)], "1 was of an older topic of this name"
    first = topic.partitions[0]
    assert (first.committed_leader_epoch, first.metadata) == (1, "note")
    missing = topic.partitions[3]
    assert (missing.committed_leader_epoch, missing.metadata) == (-1, "")


def test_of_a_topic_that_was_deleted_the_offsets_are_shown_by_name(
    cluster: Cluster, committed: CommittedOffsets
) -> None:
    (topic,) = fetch_requested(
        asked(OffsetFetchRequestTopics("deleted", partition_indexes=[0])),
        committed,
        cluster,
        False,
        ResponseBudget(10_000),
    )
    assert topic.partitions[0].committed_offset == 8


def test_by_id(cluster: Cluster, committed: CommittedOffsets) -> None:
    group = asked(
        OffsetFetchRequestTopics(topic_id=ORDERS, partition_indexes=[0, 1]),
        OffsetFetchRequestTopics(topic_id=UNKNOWN, partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=NO_UUID, partition_indexes=[0]),
    )
    replies = fetch_requested(group, committed, cluster, True, ResponseBudget(10_000))
    found = [
        (topic.topic_id, [(each.committed_offset, each.error_code) for each in topic.partitions]) for topic in replies
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert found == [(ORDERS, [(5, 0), (-1, 0)]), (UNKNOWN, [(-1, unknown)]), (NO_UUID, [(-1, unknown)])]


@pytest.mark.parametrize("by_id", [False, True])
def test_all(cluster: Cluster, committed: CommittedOffsets, by_id: bool) -> None:
    replies = fetch_all(OffsetFetchRequestGroup("g", topics=None), committed, cluster, by_id, ResponseBudget(10_000))
    found = {
        topic.topic_id if by_id else topic.name: [each.committed_offset for each in topic.partitions]
        for topic in replies
    }
    assert found == ({ORDERS: [5, 7]} if by_id else {"orders": [5, 7], "deleted": [8]})


def test_a_topic_of_which_only_older_offsets_are_left_is_not_named(cluster: Cluster) -> None:
    committed = CommittedOffsets()
    committed.put("g", "orders", 1, CommittedOffset(6, topic_id=OLD_ORDERS))
    assert fetch_all(OffsetFetchRequestGroup("g", topics=None), committed, cluster, False, ResponseBudget(10_000)) == []


def test_an_answer_has_a_bound(cluster: Cluster, committed: CommittedOffsets) -> None:
    committed.put("g", "orders", 3, CommittedOffset(5, metadata="m" * 4096))
    again = asked(OffsetFetchRequestTopics("orders", partition_indexes=[3] * 20))
    for group, fetch in ((again, fetch_requested), (OffsetFetchRequestGroup("g", topics=None), fetch_all)):
        fetch(group, committed, cluster, False, ResponseBudget(100_000))
        room = ResponseBudget(100_000)
        with pytest.raises(KafkaError) as refused:
            for _ in range(30):
                fetch(group, committed, cluster, False, room)
        assert refused.value.code is ErrorCode.INVALID_REQUEST
