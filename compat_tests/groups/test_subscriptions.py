"""Groups notice new, grown and deleted topics, also those that match a pattern."""

import uuid

import pytest
from confluent_kafka import Consumer
from confluent_kafka import ConsumerGroupState as State
from kafka import KafkaConsumer
from topics import topic_creator
from waiting import wait_until

from .members import ONE_OF_EACH_CLIENT, PATIENCE_SECONDS, wait_until_shared

QUICK = 500
"""How often a client looks for new topics and partitions, in milliseconds."""


@pytest.fixture
def prefix():
    return f"pattern-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_topics_that_match_a_pattern_are_read_as_they_come_and_go(
    flavour, bootstrap, prefix, start_member, fill, admin
):
    make = topic_creator(bootstrap, prefix + "-a")
    first = make(2)
    topic_creator(bootstrap, "x" + prefix)(1)
    members = [start_member(flavour, pattern=f"^{prefix}.*", metadata_ms=QUICK) for _ in range(2)]
    places = {(first, 0), (first, 1)}
    wait_until_shared(members, places)
    second = make(2)
    places |= {(second, 0), (second, 1)}
    wait_until_shared(members, places)
    values = fill(first, 5, 2) | fill(second, 5, 2)
    wait_until(lambda: values <= {value for member in members for value in member.values}, what="everything is read")
    admin.delete_topics([first])
    wait_until_shared(members, {(second, 0), (second, 1)})


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_added_partitions_are_shared_too(flavour, create_topic, start_member, fill, admin):
    topic = create_topic()
    members = [start_member(flavour, topic, metadata_ms=QUICK)]
    wait_until_shared(members, {(topic, 0)})
    admin.create_partitions({topic: 4})
    wait_until_shared(members, {(topic, partition) for partition in range(4)})
    members.append(start_member(flavour, topic, metadata_ms=QUICK))
    wait_until_shared(members, {(topic, partition) for partition in range(4)})
    values = fill(topic, 5, 4)
    wait_until(lambda: values <= {value for member in members for value in member.values}, what="everything is read")


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_deleting_a_topic_deletes_its_committed_offsets(flavour, create_topic, group, start_member, fill, admin):
    topics = create_topic(), create_topic()
    member = start_member(flavour, topics, metadata_ms=QUICK)
    wait_until_shared([member], {(topic, 0) for topic in topics})
    for topic in topics:
        fill(topic, 5)
    wait_until(lambda: set(member.committed.values()) == {5} and len(member.committed) == 2, PATIENCE_SECONDS)

    def committed():
        return {tuple(place): kept.offset for place, kept in admin.list_group_offsets(group)[group].items()}

    assert committed() == {(topic, 0): 5 for topic in topics}
    gone, left = topics
    admin.delete_topics([gone])
    wait_until(lambda: committed() == {(left, 0): 5}, PATIENCE_SECONDS, "the deleted topic's offsets are gone")
    member.wait_for_values(fill(left, 5))


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_members_may_read_different_topics(flavour, create_topic, start_member):
    both, mine = create_topic(partitions=2), create_topic(partitions=2)
    first = start_member(flavour, (both, mine))
    places = {(topic, partition) for topic in (both, mine) for partition in range(2)}
    wait_until_shared([first], places)
    second = start_member(flavour, both)
    wait_until_shared([first, second], places)
    assert {topic for topic, _ in second.assigned} == {both}


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT[2:], ids=str)
def test_members_wait_for_a_topic_that_does_not_exist_yet(flavour, prefix, bootstrap, start_member, admin, fill):
    """Clients of the other kinds create the topic by asking for it."""
    member = start_member(flavour, prefix, metadata_ms=QUICK)
    other = start_member(flavour, prefix, metadata_ms=QUICK)
    admin.create_topics({prefix: {"num_partitions": 2, "replication_factor": 1}})
    wait_until_shared([member, other], {(prefix, 0), (prefix, 1)})
    values = fill(prefix, 5, 2)
    wait_until(lambda: values <= {*member.values, *other.values}, what="everything is read")


@pytest.fixture(params=["kafka-python", "classic", "consumer"])
def consumer(request, bootstrap, group):
    """Yields a consumer in this process: kafka-python's, or librdkafka's with either protocol."""
    if request.param == "kafka-python":
        made = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, heartbeat_interval_ms=300)
    else:
        made = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": request.param})
    yield made
    made.close()


def test_a_member_changes_what_it_reads(consumer, create_topic, group, librdkafka_admin):
    first, second = create_topic(partitions=2), create_topic(partitions=1)

    def reads(*topics):
        consumer.poll(1000) if isinstance(consumer, KafkaConsumer) else consumer.poll(0.1)
        return {(each.topic, each.partition) for each in consumer.assignment()} == {*topics}

    def state():
        if isinstance(consumer, Consumer):
            consumer.poll(0)  # leaving also happens in polls
        return librdkafka_admin.describe_consumer_groups([group], request_timeout=10)[group].result(20).state

    consumer.subscribe([first])
    wait_until(lambda: reads((first, 0), (first, 1)), PATIENCE_SECONDS, "the consumer reads the first topic")
    consumer.subscribe([second])
    wait_until(lambda: reads((second, 0)), PATIENCE_SECONDS, "the consumer reads the second topic")
    consumer.subscribe([first, second])
    wait_until(lambda: reads((first, 0), (first, 1), (second, 0)), PATIENCE_SECONDS, "the consumer reads both topics")
    consumer.unsubscribe()
    wait_until(lambda: state() == State.EMPTY, PATIENCE_SECONDS, "the consumer has left")
    consumer.subscribe([second])
    wait_until(lambda: reads((second, 0)), PATIENCE_SECONDS, "the consumer has joined again")
    assert state() == State.STABLE


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_a_recreated_topic_is_a_different_topic(flavour, prefix, group, start_member, fill, admin):
    def create():
        admin.create_topics({prefix: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)

    create()
    member = start_member(flavour, prefix, metadata_ms=QUICK)
    member.wait_for_values(fill(prefix, 20))
    wait_until(lambda: member.committed == {(prefix, 0): 20}, PATIENCE_SECONDS, "everything is committed")
    member.leave()
    admin.delete_topics([prefix])
    wait_until(
        lambda: not admin.list_group_offsets(group)[group], PATIENCE_SECONDS, "the deleted topic's offsets are gone"
    )
    create()
    values = fill(prefix, 5)
    heir = start_member(flavour, prefix, metadata_ms=QUICK)
    heir.wait_for_values(values)
    wait_until(lambda: heir.committed == {(prefix, 0): 5}, PATIENCE_SECONDS, "everything is committed")
