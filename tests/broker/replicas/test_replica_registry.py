from uuid import UUID

from held_replicas import ELSEWHERE, TOPIC_ID, World, topic_of

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import TopicId


def test_a_replica_is_found_by_name_and_by_id() -> None:
    world = World()
    (replica,) = world.add(topic_of())
    assert world.replicas.leading("t", 0) is replica
    assert world.replicas.leading(TOPIC_ID, 0) is replica
    assert world.replicas.leading("t", 0, epoch=5) is replica
    assert list(world.replicas) == [replica], "each is there once"


def test_a_lookup_of_a_missing_replica_says_why() -> None:
    world = World()
    world.add(topic_of())
    assert world.refusal("missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.refusal(UUID(int=99)) == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.refusal("t", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.refusal("t", -1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.refusal(TOPIC_ID, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.refusal("t", epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
    assert world.refusal("t", epoch=6) == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_partition_that_another_leads_sends_the_client_on() -> None:
    world = World()
    world.add(topic_of(leader=ELSEWHERE))
    world.cluster.put_topic(topic_of("not-here", TopicId(int=8), leader=ELSEWHERE))
    assert world.refusal("t") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.refusal("not-here") == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replica_whose_log_did_not_open_says_that_its_storage_failed() -> None:
    world = World()
    topic = topic_of()
    world.cluster.put_topic(topic)
    world.replicas.add_damaged(topic.partitions[0], "bits have flipped")
    assert world.refusal("t") == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.replicas.remove(topic.partitions[0]) is None
    assert world.refusal("t") == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_removed_replica_is_gone_by_name_and_by_id() -> None:
    world = World()
    topic = topic_of(partitions=2)
    made = world.add(topic)
    other = world.add(topic_of("other", TopicId(int=8)))
    assert [world.replicas.remove(spec) for spec in topic.partitions] == made
    assert world.replicas.find("t", 0) is None
    assert world.replicas.find(TOPIC_ID, 1) is None
    assert list(world.replicas) == other


def test_a_topic_that_goes_takes_none_with_it_that_has_its_name_by_now() -> None:
    world = World()
    topic = topic_of()
    world.add(topic)
    (other,) = world.add(topic_of(topic_id=TopicId(int=8)))
    world.replicas.remove(topic.partitions[0])
    assert world.replicas.find(TOPIC_ID, 0) is None
    assert world.replicas.find("t", 0) is other
    assert list(world.replicas) == [other]
