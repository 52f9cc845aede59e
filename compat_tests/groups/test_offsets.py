"""Committed offsets and their metadata survive restarts and kill -9, and no outsider can change them."""

import pytest
from brokers import is_apache_kafka
from clients.kafka_python import read
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition
from kafka import KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as Place
from kafka.errors import CommitFailedError, NoError, OffsetMetadataTooLargeError, UnknownTopicOrPartitionError
from topics import topic_creator
from waiting import wait_until

from .members import ONE_OF_EACH_CLIENT, PATIENCE_SECONDS, wait_until_shared

PARTITIONS = 3


@pytest.fixture
def topic(create_topic):
    return create_topic(partitions=PARTITIONS)


@pytest.fixture
def make_consumer(bootstrap, group):
    """Yields a function that makes consumers of kafka-python, by default in the test's group."""
    made = []

    def make(**settings):
        common = {"bootstrap_servers": bootstrap, "group_id": group, "enable_auto_commit": False}
        made.append(
            KafkaConsumer(**common | {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300} | settings)
        )
        return made[-1]

    yield make
    for consumer in made:
        consumer.close(autocommit=False)


def joined(consumer, topic):
    """Returns the consumer once all partitions of the topic are assigned to it."""
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(timeout_ms=300) or len(consumer.assignment()) == PARTITIONS, PATIENCE_SECONDS)
    return consumer


def committed(admin, group):
    """Returns committed offsets by topic and partition."""
    return {tuple(place): kept.offset for place, kept in admin.list_group_offsets(group)[group].items()}


def test_what_was_committed_is_found_with_its_metadata(topic, make_consumer, fill):
    fill(topic, 10, PARTITIONS)
    places = [Place(topic, partition) for partition in range(PARTITIONS)]
    consumer = joined(make_consumer(), topic)
    consumer.commit({places[0]: OffsetAndMetadata(4, "as far as here: ü", 0)})
    done = []
    consumer.commit_async({places[1]: OffsetAndMetadata(7, "", -1)}, callback=lambda *what: done.append(what))
    wait_until(lambda: consumer.poll(timeout_ms=20, update_offsets=False) or done, what="the commit has a response")
    other = make_consumer()
    kept = other.committed(places[0], metadata=True)
    assert (kept.offset, kept.metadata, kept.leader_epoch) == (4, "as far as here: ü", 0)
    kept = other.committed(places[1], metadata=True)
    assert (kept.offset, kept.metadata, kept.leader_epoch) == (7, "", -1)
    assert other.committed(places[2]) is None


def test_a_member_begins_where_its_group_has_committed(topic, make_consumer, fill):
    fill(topic, 10, PARTITIONS)
    first = joined(make_consumer(), topic)
    first.commit({Place(topic, partition): OffsetAndMetadata(partition * 3, "", -1) for partition in range(PARTITIONS)})
    first.close()
    records = read(joined_without_reading(make_consumer(), topic), 10 + 7 + 4)
    offsets = {partition: [each.offset for each in records if each.partition == partition] for partition in (0, 1, 2)}
    assert offsets == {0: list(range(10)), 1: list(range(3, 10)), 2: list(range(6, 10))}


def joined_without_reading(consumer, topic):
    consumer.subscribe([topic])
    return consumer


def test_commits_without_membership(topic, bootstrap, group, fill):
    fill(topic, 10, PARTITIONS)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 1, 0)])
    kept = consumer.commit(offsets=[TopicPartition(topic, 1, 6, metadata="alone")], asynchronous=False)
    assert [each.error for each in kept] == [None]
    wanted = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = consumer.committed(wanted, timeout=20)
    assert [each.offset for each in found] == [OFFSET_INVALID, 6, OFFSET_INVALID]
    assert found[1].metadata == "alone"
    consumer.close()


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_clients_commit_automatically(flavour, topic, group, start_member, fill, admin):
    values = fill(topic, 30, PARTITIONS)
    member = start_member(flavour, topic, commit="auto", auto_commit_ms=200)
    member.wait_for_values(values)
    all_of_it = {(topic, partition): 30 for partition in range(PARTITIONS)}
    wait_until(lambda: committed(admin, group) == all_of_it, PATIENCE_SECONDS, "everything is committed")
    more = fill(topic, 5, PARTITIONS)
    member.wait_for_values(more)
    member.leave()  # a member commits before it leaves
    assert committed(admin, group) == {(topic, partition): 35 for partition in range(PARTITIONS)}


def test_what_cannot_be_committed_is_refused(topic, group, make_consumer, admin):
    consumer = joined(make_consumer(), topic)
    here = Place(topic, 0)
    consumer.commit({here: OffsetAndMetadata(0, "x" * 4096, -1)})
    with pytest.raises(OffsetMetadataTooLargeError):
        consumer.commit({here: OffsetAndMetadata(0, "x" * 4097, -1)})
    assert consumer.committed(here, metadata=True).metadata == "x" * 4096
    unknown = (Place(topic, 99), Place(topic + "-no", 0))
    offsets = {place: OffsetAndMetadata(5, "", -1) for place in (here, *unknown)}
    answers = admin.alter_group_offsets(group + "-other", offsets)
    assert answers == {here: NoError} | dict.fromkeys(unknown, UnknownTopicOrPartitionError)
    assert committed(admin, group + "-other") == {tuple(here): 5}


def test_a_removed_member_commits_nothing(topic, group, start_member, make_consumer, fill, admin):
    fill(topic, 10, PARTITIONS)
    slow = make_consumer(max_poll_interval_ms=6000, session_timeout_ms=6000)
    joined(slow, topic)
    slow.commit({Place(topic, partition): OffsetAndMetadata(3, "", -1) for partition in range(PARTITIONS)})
    other = start_member(ONE_OF_EACH_CLIENT[0], topic)
    wait_until_shared([other], {(topic, partition) for partition in range(PARTITIONS)})
    wait_until(lambda: len(committed(admin, group)) == PARTITIONS and min(committed(admin, group).values()) == 10)
    with pytest.raises(CommitFailedError):
        slow.commit({Place(topic, 0): OffsetAndMetadata(4, "", -1)})
    assert committed(admin, group)[topic, 0] == 10


def test_an_outsider_commits_nothing_for_a_group_with_members(topic, bootstrap, group, start_member, make_consumer):
    member = start_member(ONE_OF_EACH_CLIENT[0], topic)
    wait_until_shared([member], {(topic, partition) for partition in range(PARTITIONS)})
    stranger = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    stranger.assign([TopicPartition(topic, 0, 0)])
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        stranger.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert make_consumer().committed(Place(topic, 0)) is None
    stranger.close()


def test_two_groups_read_all_and_keep_their_own_offsets(topic, group, start_member, fill, admin):
    values = fill(topic, 20, PARTITIONS)
    names = (group, group + "-other")
    members = [start_member(ONE_OF_EACH_CLIENT[number], topic, group=names[number]) for number in (0, 1)]
    for member in members:
        member.wait_for_values(values)
    all_of_it = {(topic, partition): 20 for partition in range(PARTITIONS)}
    wait_until(
        lambda: all(committed(admin, name) == all_of_it for name in names), what="both have committed everything"
    )
    members[0].leave()
    more = fill(topic, 5, PARTITIONS)
    members[1].wait_for_values(more)
    wait_until(lambda: set(committed(admin, names[1]).values()) == {25}, what="the second group has continued")
    assert committed(admin, names[0]) == all_of_it


@pytest.mark.parametrize("flavour", [ONE_OF_EACH_CLIENT[0], ONE_OF_EACH_CLIENT[3]], ids=str)
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_a_restarted_broker_knows_groups_and_offsets(
    request, broker, flavour, is_killed, group, start_member, make_filler
):
    topic = topic_creator(broker.bootstrap, request.node.name)(PARTITIONS)
    fill = make_filler(broker.bootstrap)
    values = fill(topic, 20, PARTITIONS)
    member = start_member(flavour, topic, bootstrap=broker.bootstrap, session_ms=60_000)
    member.wait_for_values(values)
    all_of_it = {(topic, partition): 20 for partition in range(PARTITIONS)}
    wait_until(lambda: member.committed == all_of_it, PATIENCE_SECONDS, "everything is committed")
    before = len(member.changes)
    if is_killed:
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.start()
    more = fill(topic, 20, PARTITIONS)
    member.wait_for_values(more)
    assert len(member.values) == len(values | more), "some records were read again"
    assert len(member.changes) == before, "the group had to rebalance"
    wait_until(lambda: member.committed == dict.fromkeys(all_of_it, 40), PATIENCE_SECONDS, "everything is committed")
    member.leave()
    rest = fill(topic, 5, PARTITIONS)
    heir = start_member(flavour, topic, bootstrap=broker.bootstrap)
    heir.wait_for_values(rest)
    assert set(heir.values) == rest, "committed records were read again"


def test_a_consumer_seeks_to_what_was_committed(topic, make_consumer, fill):
    fill(topic, 10, PARTITIONS)
    consumer = joined_without_reading(make_consumer(), topic)
    assert len(read(consumer, 30)) == 30
    here = Place(topic, 2)
    consumer.commit({here: OffsetAndMetadata(8, "", -1)})
    consumer.seek(here, consumer.committed(here))
    assert [(each.partition, each.offset) for each in read(consumer, 2)] == [(2, 8), (2, 9)]


def test_offsets_of_many_groups_are_fetched_at_once(topic, group, bootstrap, admin):
    names = [f"{group}-{number}" for number in range(20)]
    for number, name in enumerate(names):
        answers = admin.alter_group_offsets(name, {Place(topic, 0): OffsetAndMetadata(number, str(number), -1)})
        assert [error.errno for error in answers.values()] == [0]
    found = admin.list_group_offsets(dict.fromkeys([*names, group + "-unknown"]))
    assert {name: [(kept.offset, kept.metadata) for kept in found[name].values()] for name in found} == {
        **{name: [(number, str(number))] for number, name in enumerate(names)},
        group + "-unknown": [],
    }


def test_an_older_epoch_of_a_trigger_is_fenced_and_an_ordinary_client_is_not(request, bootstrap, topic, group):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})

    def has_coordinator():
        try:
            return consumer.committed([TopicPartition(topic, 0)], timeout=20)
        except KafkaException:
            return False

    wait_until(has_coordinator, PATIENCE_SECONDS)

    def commit(offset, metadata=""):
        place = TopicPartition(topic, 0, offset, metadata)
        return consumer.commit(offsets=[place], asynchronous=False)[0].offset

    assert commit(5, "trigger epoch=2 member=replica2") == 5
    if not is_apache_kafka(request):  # it stores the text, and fences nothing
        with pytest.raises(KafkaException, match="STALE_MEMBER_EPOCH"):
            commit(9, "trigger epoch=1 member=replica1")
    assert commit(3) == 3
    consumer.close()
