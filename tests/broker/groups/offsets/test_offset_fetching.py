from uuid import UUID

import pytest

from tailrace.broker.groups.offsets.committed_offsets import CommittedOffset, CommittedOffsets
from tailrace.broker.groups.offsets.offset_fetching import FetchableOffsets, ResponseBudget, fetch_offsets, is_unstable
from tailrace.broker.groups.offsets.pending_offsets import PendingOffsets
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import TopicSpec
from tailrace.protocol.codec.primitives import NO_UUID
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseTopics,
)

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


def fetched(
    group: OffsetFetchRequestGroup, committed: CommittedOffsets, cluster: Cluster, by_id: bool, budget: ResponseBudget
) -> list[OffsetFetchResponseTopics]:
    """Fetches offsets that need not be stable."""
    return fetch_offsets(group, FetchableOffsets(committed, None), cluster, budget, by_id=by_id)


def asked(*topics: OffsetFetchRequestTopics) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup("g", topics=list(topics))


def test_by_name(cluster: Cluster, committed: CommittedOffsets) -> None:
    group = asked(OffsetFetchRequestTopics("orders", partition_indexes=[0, 1, 2, 3, 0]))
    (topic,) = fetched(group, committed, cluster, False, ResponseBudget(10_000))
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
    (topic,) = fetched(
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
    replies = fetched(group, committed, cluster, True, ResponseBudget(10_000))
    found = [
        (topic.topic_id, [(each.committed_offset, each.error_code) for each in topic.partitions]) for topic in replies
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert found == [(ORDERS, [(5, 0), (-1, 0)]), (UNKNOWN, [(-1, unknown)]), (NO_UUID, [(-1, unknown)])]


@pytest.mark.parametrize("by_id", [False, True])
def test_all(cluster: Cluster, committed: CommittedOffsets, by_id: bool) -> None:
    replies = fetched(OffsetFetchRequestGroup("g", topics=None), committed, cluster, by_id, ResponseBudget(10_000))
    found = {
        topic.topic_id if by_id else topic.name: [each.committed_offset for each in topic.partitions]
        for topic in replies
    }
    assert found == ({ORDERS: [5, 7]} if by_id else {"orders": [5, 7], "deleted": [8]})


def test_a_topic_of_which_only_older_offsets_are_left_is_not_named(cluster: Cluster) -> None:
    committed = CommittedOffsets()
    committed.put("g", "orders", 1, CommittedOffset(6, topic_id=OLD_ORDERS))
    assert fetched(OffsetFetchRequestGroup("g", topics=None), committed, cluster, False, ResponseBudget(10_000)) == []


def test_an_answer_has_a_bound(cluster: Cluster, committed: CommittedOffsets) -> None:
    committed.put("g", "orders", 3, CommittedOffset(5, metadata="m" * 4096))
    again = asked(OffsetFetchRequestTopics("orders", partition_indexes=[3] * 20))
    for group in (again, OffsetFetchRequestGroup("g", topics=None)):
        fetched(group, committed, cluster, False, ResponseBudget(100_000))
        room = ResponseBudget(100_000)
        with pytest.raises(KafkaError) as refused:
            for _ in range(30):
                fetched(group, committed, cluster, False, room)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.fixture
def pending() -> PendingOffsets:
    pending = PendingOffsets()
    pending.put(7, "g", "orders", 0, CommittedOffset(15, topic_id=ORDERS))
    pending.put(7, "g", "orders", 3, CommittedOffset(16, topic_id=ORDERS))
    pending.put(7, "h", "orders", 2, CommittedOffset(17, topic_id=ORDERS))
    return pending


@pytest.mark.parametrize("by_id", [False, True])
def test_stable_offsets_do_not_include_those_of_open_transactions(
    cluster: Cluster, committed: CommittedOffsets, pending: PendingOffsets, by_id: bool
) -> None:
    topic = OffsetFetchRequestTopics("orders", ORDERS, partition_indexes=[0, 2, 3])
    if by_id:
        topic.name = ""
    for stable, offsets in [(False, FetchableOffsets(committed, None)), (True, FetchableOffsets(committed, pending))]:
        assert is_unstable(asked(topic), offsets, cluster, by_id=by_id) is stable
        (found,) = fetch_offsets(asked(topic), offsets, cluster, ResponseBudget(10_000), by_id=by_id)
        errors = {each.partition_index: each.error_code for each in found.partitions}
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT if stable else 0
        assert errors == {0: unstable, 2: 0, 3: unstable}
        assert found.partitions[0].committed_offset == (-1 if stable else 5)
        assert found.partitions[1].committed_offset == 7


def test_all_stable_offsets_are_those_that_are_committed(
    cluster: Cluster, committed: CommittedOffsets, pending: PendingOffsets
) -> None:
    everything = OffsetFetchRequestGroup("g", topics=None)
    offsets = FetchableOffsets(committed, pending)
    assert is_unstable(everything, offsets, cluster, by_id=False)
    orders, _ = fetch_offsets(everything, offsets, cluster, ResponseBudget(10_000), by_id=False)
    found = {each.partition_index: (each.committed_offset, each.error_code) for each in orders.partitions}
    assert found == {0: (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT), 2: (7, 0)}, "3 has never been committed"
    committed.remove("g", "orders", 0)
    assert not is_unstable(everything, offsets, cluster, by_id=False)


def test_other_partitions_are_stable(cluster: Cluster, committed: CommittedOffsets, pending: PendingOffsets) -> None:
    offsets = FetchableOffsets(committed, pending)
    for topic in (
        OffsetFetchRequestTopics("orders", partition_indexes=[1, 2]),
        OffsetFetchRequestTopics("deleted", partition_indexes=[0]),
    ):
        assert not is_unstable(asked(topic), offsets, cluster, by_id=False)
    group = OffsetFetchRequestGroup("nobody", topics=[OffsetFetchRequestTopics("orders", partition_indexes=[0])])
    assert not is_unstable(group, offsets, cluster, by_id=False)
