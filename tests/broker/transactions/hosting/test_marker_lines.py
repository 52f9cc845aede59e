"""The markers that wait for the leaders of their partitions."""

from msgspec import Struct
from msgspec.structs import replace

from tailrace.broker.transactions.hosting.marker_lines import (
    MARKERS_PER_REQUEST_MAX,
    TROUBLED_SECONDS,
    UNKNOWN_SECONDS_MIN,
    Line,
    MarkerLines,
    WaitingMarker,
    outcomes,
    request_of,
)
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.coordinators import TRANSACTIONS_TOPIC
from tailrace.cluster.specs import NO_LEADER, PartitionSpec, TopicPartition, TopicSpec
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

FIRST, SECOND = SpuId(1), SpuId(2)
TO_FIRST, TO_SECOND = Line(FIRST, False), Line(SECOND, False)


class _Owner(Struct, eq=False):
    is_over: bool = False


OWNER = _Owner()


def _cluster(leaders: dict[str, list[SpuId]]) -> Cluster:
    cluster = Cluster()
    for number, (name, spus) in enumerate({TRANSACTIONS_TOPIC: [FIRST], **leaders}.items()):
        topic_id = TopicId(int=number + 1)
        partitions = tuple(
            PartitionSpec(topic_id, name, partition, leader, Epoch(1), (FIRST, SECOND), (FIRST, SECOND))
            for partition, leader in enumerate(spus)
        )
        cluster.put_topic(TopicSpec(topic_id, name, {}, partitions))
    return cluster


def _marker(topic: str = "t", partition: int = 0, producer_id: int = 7, version: int = 2) -> WaitingMarker:
    return WaitingMarker(OWNER, "id", producer_id, 3, True, 5, version, TopicPartition(topic, partition))


def test_markers_are_in_the_lines_of_the_leaders() -> None:
    lines = MarkerLines(_cluster({"t": [FIRST, SECOND, FIRST]}))
    markers = [_marker(partition=partition) for partition in range(3)]
    assert [lines.add(marker, 0.0) for marker in markers] == [TO_FIRST, TO_SECOND, TO_FIRST]
    assert lines.waiting == 3
    assert lines.take(TO_FIRST) == [markers[0], markers[2]]
    assert lines.take(TO_SECOND) == [markers[1]]
    assert lines.take(TO_FIRST) == []
    assert lines.waiting == 0


def test_a_marker_without_a_leader_is_in_no_line_and_its_partition_is_not_gone() -> None:
    lines, marker = MarkerLines(_cluster({"t": [NO_LEADER]})), _marker()
    assert lines.add(marker, 0.0) is None
    assert not lines.is_gone(marker, 1e9)


def test_a_partition_is_gone_after_it_was_unknown_for_a_while() -> None:
    cluster = _cluster({"t": [FIRST]})
    lines, marker = MarkerLines(cluster), _marker("new")
    assert lines.add(marker, 10.0) is None
    assert not lines.is_gone(marker, 10.0)
    assert lines.add(marker, 10.0 + UNKNOWN_SECONDS_MIN) is None
    assert lines.is_gone(marker, 10.0 + UNKNOWN_SECONDS_MIN)
    beyond = _marker("t", 1)
    assert lines.add(beyond, 0.0) is None
    assert lines.is_gone(beyond, UNKNOWN_SECONDS_MIN)


def test_no_partition_is_gone_while_the_mirror_of_the_cluster_is_empty() -> None:
    """After a start, the specs of replicas may come long before the metadata if the Streaming Controller crashes."""
    lines, marker = MarkerLines(Cluster()), _marker()
    for now in (0.0, 1000.0):
        assert lines.add(marker, now) is None
        assert not lines.is_gone(marker, now)


def test_a_partition_is_not_gone_while_its_topic_may_be_hidden() -> None:
    """After a restart of this SPU, the mirror lacks the topics that a new Streaming Controller hides for a while."""
    cluster = _cluster({"t": [FIRST]})
    lines, hidden, grown = MarkerLines(cluster), _marker("hidden"), _marker("t", 1)
    for now in (0.0, 1000.0):
        cluster.put_hidden_topics([TopicId(int=9), cluster.topics["t"].id])
        for marker in (hidden, grown):
            assert lines.add(marker, now) is None
            assert not lines.is_gone(marker, now)
    cluster.put_hidden_topics([])
    for now, is_gone in ((1000.5, False), (1000.5 + UNKNOWN_SECONDS_MIN, True)):
        for marker in (hidden, grown):
            assert lines.add(marker, now) is None
            assert lines.is_gone(marker, now) == is_gone


def test_a_partition_that_becomes_known_is_not_gone() -> None:
    cluster = _cluster({"t": [FIRST]})
    lines, marker = MarkerLines(cluster), _marker("new")
    lines.add(marker, 0.0)
    cluster.put_topic(replace(cluster.topics["t"], id=TopicId(int=9), name="new"))
    assert lines.add(marker, 0.5) == TO_FIRST
    assert not lines.is_gone(marker, 100.0)


def test_one_request_has_a_bounded_number_of_markers() -> None:
    lines = MarkerLines(_cluster({"t": [FIRST]}))
    for producer_id in range(MARKERS_PER_REQUEST_MAX + 1):
        lines.add(_marker(producer_id=producer_id), 0.0)
    assert len(lines.take(TO_FIRST)) == MARKERS_PER_REQUEST_MAX
    assert lines.has_line(TO_FIRST)
    assert len(lines.take(TO_FIRST)) == 1
    assert not lines.has_line(TO_FIRST)


def test_one_request_has_one_marker_of_a_producer_for_a_partition() -> None:
    """The response does not tell two of them apart."""
    lines = MarkerLines(_cluster({"t": [FIRST]}))
    for _ in range(2):
        lines.add(_marker(), 0.0)
    assert [len(lines.take(TO_FIRST)) for _ in range(3)] == [1, 1, 0]


def test_resting_markers_are_due_in_the_order_of_their_times() -> None:
    lines = MarkerLines(_cluster({}))
    late, early = _marker(), _marker()
    lines.rest(late, 2.0)
    lines.rest(early, 1.0)
    assert lines.wakes_at == 1.0
    assert lines.take_rested(0.5) == []
    assert lines.take_rested(1.0) == [early]
    assert lines.take_rested(5.0) == [late]
    assert lines.wakes_at is None


def test_a_partition_that_could_not_write_a_marker_does_not_delay_others() -> None:
    """A request gets its response when all its markers are committed, or have timed out."""
    lines = MarkerLines(_cluster({"t": [FIRST, FIRST]}))
    failed = _marker()
    lines.rest(failed, 1.0)
    assert lines.add(_marker(producer_id=8), 0.5) == Line(FIRST, True)
    assert lines.add(_marker(partition=1), 0.5) == TO_FIRST
    assert lines.take_rested(1.0) == [failed]
    assert lines.add(failed, 1.0) == Line(FIRST, True)
    assert len(lines.take(Line(FIRST, True))) == 2
    later = 1.0 + TROUBLED_SECONDS
    assert lines.add(_marker(), later) == TO_FIRST
    lines.rest(_marker(partition=1), later)
    lines.take_rested(later)
    assert list(lines._troubled_until) == [TopicPartition("t", 1)]


def test_markers_of_a_coordinator_that_has_ended_are_forgotten() -> None:
    lines = MarkerLines(_cluster({"t": [FIRST, SECOND]}))
    ended = _Owner()
    kept = _marker(partition=1)
    lines.add(replace(_marker(), owner=ended), 0.0)
    lines.add(kept, 0.0)
    lines.rest(replace(_marker(), owner=ended), 1.0)
    ended.is_over = True
    lines.forget_ended()
    assert lines.waiting == 1
    assert not lines.has_line(TO_FIRST)
    assert lines.take(TO_SECOND) == [kept]


def test_a_request_has_one_entry_for_each_transaction() -> None:
    request = request_of([_marker("a"), _marker("b", 4), _marker("a", 1), _marker("a", producer_id=8)], 2)
    first, second = request.markers
    assert (first.producer_id, first.producer_epoch, first.transaction_result, first.coordinator_epoch) == (
        7,
        3,
        True,
        5,
    )
    assert first.transaction_version == 2
    assert {topic.name: topic.partition_indexes for topic in first.topics} == {"a": [0, 1], "b": [4]}
    assert second.producer_id == 8


def test_an_older_version_does_not_say_how_the_transaction_ended() -> None:
    """Such a field cannot be encoded."""
    assert request_of([_marker()], 1).markers[0].transaction_version == 0


def test_each_marker_has_its_outcome() -> None:
    markers = [_marker("a"), _marker("a", 1), _marker("b"), _marker("a", producer_id=8)]

    def result(producer_id: int, topic: str, codes: dict[int, int]) -> WritableTxnMarkerResult:
        partitions = [WritableTxnMarkerPartitionResult(*each) for each in codes.items()]
        return WritableTxnMarkerResult(producer_id, [WritableTxnMarkerTopicResult(topic, partitions)])

    response = WriteTxnMarkersResponse(
        [result(8, "a", {0: 0}), result(7, "a", {0: 0, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER}), result(9, "b", {0: 0})]
    )
    assert [code for _, code in outcomes(markers, response)] == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NONE,
    ]
