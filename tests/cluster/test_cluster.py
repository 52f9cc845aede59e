"""Tests the mirror: lookups by name and id, and versions that rise with changes."""

from uuid import UUID

from msgspec.structs import replace

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import PartitionSpec, SpuSpec, TopicSpec, WaitingTopic
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId

SPU = SpuId(1)
FIRST, SECOND = UUID(int=11), UUID(int=12)


def topic(topic_id: UUID, name: str = "t", partitions: int = 2) -> TopicSpec:
    specs = (PartitionSpec(topic_id, name, number, SPU, Epoch(0), (SPU,), (SPU,)) for number in range(partitions))
    return TopicSpec(topic_id, name, {}, tuple(specs))


def test_a_topic_and_its_partitions_are_found_by_name_and_by_id() -> None:
    cluster = Cluster()
    spec = topic(FIRST)
    cluster.put_topic(spec)
    assert cluster.topics["t"] is spec
    assert cluster.topic_by_id(FIRST) is spec
    assert cluster.partition("t", 1) is spec.partitions[1]
    assert cluster.partition(FIRST, 1) is spec.partitions[1]


def test_what_does_not_exist_is_none() -> None:
    cluster = Cluster()
    cluster.put_topic(topic(FIRST))
    assert cluster.topic_by_id(SECOND) is None
    assert cluster.partition("u", 0) is None
    assert cluster.partition(SECOND, 0) is None
    assert cluster.partition("t", 2) is None
    assert cluster.partition("t", -1) is None


def test_a_hidden_topic_may_have_any_unknown_name() -> None:
    cluster = Cluster()
    cluster.put_topic(topic(FIRST))
    assert not cluster.may_lack("t")
    assert not cluster.may_lack("u")
    cluster.put_hidden_topics([SECOND])
    assert not cluster.may_lack("t"), "its name is known, and it is not hidden"
    assert cluster.may_lack("u")
    cluster.put_waiting_topics([WaitingTopic(SECOND, "w", ErrorCode.INVALID_REPLICATION_FACTOR)])
    assert (cluster.may_lack("u"), cluster.may_lack("w")) == (False, True)
    cluster.put_waiting_topics([])
    cluster.put_topic(topic(SECOND, "u"))
    assert not cluster.may_lack("v")


def test_a_hidden_topic_that_is_known_may_have_more_partitions() -> None:
    cluster = Cluster()
    cluster.put_topic(topic(FIRST))
    cluster.put_hidden_topics([FIRST])
    assert (cluster.may_lack("t"), cluster.may_lack("u")) == (True, False)
    cluster.put_topic(topic(FIRST, partitions=3))
    assert not cluster.may_lack("t")


def test_a_hidden_topic_that_is_removed_is_missed_no_longer() -> None:
    cluster = Cluster()
    cluster.put_hidden_topics([FIRST])
    cluster.remove_topic(FIRST)
    assert not cluster.may_lack("t")


def test_a_name_that_is_taken_over_leaves_no_trace_of_the_old_id() -> None:
    cluster = Cluster()
    cluster.put_topic(topic(FIRST))
    cluster.put_topic(topic(SECOND))
    assert cluster.topic_by_id(FIRST) is None
    cluster.remove_topic(FIRST)
    assert cluster.topics["t"].id == SECOND
    cluster.remove_topic(SECOND)
    assert not cluster.topics


def test_whoever_wants_to_know_is_told_of_each_topic_that_goes() -> None:
    cluster = Cluster()
    gone: list[TopicSpec] = []
    cluster.gone_watchers.append(gone.append)
    first, again, second = topic(FIRST), topic(FIRST, partitions=3), topic(SECOND)
    for each in (first, again):
        cluster.put_topic(each)
    assert not gone
    cluster.put_topic(second)
    assert gone == [again] and cluster.topics["t"] is second
    cluster.remove_topic(FIRST)
    cluster.remove_topic(SECOND)
    assert gone == [again, second]


def test_every_change_raises_the_version_and_nothing_else_does() -> None:
    cluster = Cluster()
    versions = [cluster.version]

    def changed() -> bool:
        versions.append(cluster.version)
        return versions[-1] > versions[-2]

    cluster.identify("c", SPU)
    assert changed()
    cluster.put_spu(SpuSpec(SPU))
    assert changed()
    cluster.put_topic(topic(FIRST))
    assert changed()
    cluster.put_topic(replace(topic(FIRST), configs={"retention.ms": "1"}))
    assert changed()
    cluster.remove_topic(SECOND)
    assert not changed()
    cluster.remove_topic(FIRST)
    assert changed()
    cluster.remove_spu(SPU)
    assert changed()


def test_the_version_of_the_topics_rises_when_consumers_have_other_partitions_and_only_then() -> None:
    cluster = Cluster()
    versions = [cluster.topics_version]

    def changed() -> bool:
        versions.append(cluster.topics_version)
        return versions[-1] > versions[-2]

    cluster.put_topic(topic(FIRST))
    assert changed()
    cluster.put_spu(SpuSpec(SPU))
    cluster.put_topic(replace(topic(FIRST), configs={"retention.ms": "1"}))
    assert not changed()
    cluster.put_topic(topic(FIRST, partitions=3))
    assert changed()
    cluster.put_topic(topic(SECOND, partitions=3))
    assert changed()
    cluster.remove_topic(FIRST)  # which is another one by now
    assert not changed()
    cluster.remove_topic(SECOND)
    assert changed()
