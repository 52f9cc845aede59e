"""Offsets of groups request by request: commits, fetches, deletions and refusals in every version."""

import time
import uuid

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, TopicPartition
from raw import connect
from raw_groups import (
    GROUP_ID_NOT_FOUND,
    INVALID_GROUP_ID,
    NON_EMPTY_GROUP,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Member,
)
from raw_offsets import (
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    NO_OFFSET,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    Committed,
    Fetched,
    commit,
    delete,
    fetch,
    fetch_groups,
    id_of,
)
from waiting import wait_until

INTERNAL_TOPIC = "__consumer_offsets"
PARTITIONS = 3
NOBODY = uuid.UUID(int=99)
COMMIT_VERSIONS, FETCH_VERSIONS = range(2, 11), range(1, 11)
FETCH_ALL_FROM, FETCH_SEVERAL_FROM, BY_ID = 2, 8, 10


@pytest.fixture
def topic(create_topic):
    return create_topic(partitions=PARTITIONS)


@pytest.fixture
def named(connection, topic):
    """Returns a function that returns the topic's name or id, depending on the version."""
    topic_id = id_of(connection, topic)
    return lambda version: topic_id if version >= BY_ID else topic


def subscription(*topics):
    texts = b"".join(len(each).to_bytes(2) + each.encode() for each in topics)
    return bytes(2) + len(topics).to_bytes(4) + texts + b"\xff\xff\xff\xff"


@pytest.fixture
def alone(bootstrap, group, topic):
    """Yields a function that makes the only member of the group, to which partitions are assigned."""
    with connect(bootstrap) as opened:

        def join(**fields):
            member = Member(opened, group, protocols=[("range", subscription(topic))], **fields)
            assert member.join().error == NONE
            assert member.sync({member.member_id: b"all of it"}).error == NONE
            return member

        yield join


# committing and fetching, without members


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_the_last_commit_determines_the_offset(connection, group, named, version):
    topic = named(version)
    assert commit(connection, version, group, {(topic, 0): Committed(5), (topic, 2): Committed(6, "old")}) == {
        (topic, 0): NONE,
        (topic, 2): NONE,
    }
    last = Committed(4, "nöte", leader_epoch=3)
    assert commit(connection, version, group, {(topic, 2): last}) == {(topic, 2): NONE}
    error, offsets = fetch(connection, 10, group, None)
    assert error == NONE
    assert offsets == {
        (named(10), 0): Fetched(5),
        (named(10), 2): Fetched(4, "nöte", leader_epoch=3 if version >= 6 else -1),
    }


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_offset_that_was_not_committed_is_minus_one_without_an_error(connection, group, named, version):
    topic = named(version)
    commit(connection, 10, group, {(named(10), 1): Committed(7, "note", leader_epoch=2)})
    committed = Fetched(7, "note", leader_epoch=2 if version >= 5 else -1)
    nothing = Fetched(NO_OFFSET)
    for _ in range(2):
        error, offsets = fetch(connection, version, group, [(topic, [0, 1, 99])])
        assert (error, offsets) == (NONE, {(topic, 0): nothing, (topic, 1): committed, (topic, 99): nothing})
    other = f"{group}-that-nobody-knows"
    assert fetch(connection, version, other, [(topic, [0])]) == (NONE, {(topic, 0): nothing})


@pytest.mark.parametrize("version", range(FETCH_ALL_FROM, 11))
def test_all_offsets_of_a_group_are_fetched(connection, group, named, version):
    topic = named(version)
    assert fetch(connection, version, group, None) == (NONE, {})
    commit(connection, 10, group, {(named(10), 0): Committed(7), (named(10), 1): Committed(8)})
    assert fetch(connection, version, group, None) == (NONE, {(topic, 0): Fetched(7), (topic, 1): Fetched(8)})
    assert fetch(connection, version, group, []) == (NONE, {})


@pytest.mark.parametrize("version", range(FETCH_SEVERAL_FROM, 11))
def test_several_groups_at_once(connection, bootstrap, group, named, version):
    topic = named(version)
    groups = [f"{group}-{number}" for number in range(5)]
    for number, each in enumerate(groups[:4]):
        commit(connection, 10, each, {(named(10), 0): Committed(number)})
    asked = [(groups[0], [(topic, [0, 1])]), (groups[1], None), (groups[3], [(topic, [0])]), (groups[4], None)]
    assert fetch_groups(connection, version, asked) == {
        groups[0]: (NONE, {(topic, 0): Fetched(0), (topic, 1): Fetched(NO_OFFSET)}),
        groups[1]: (NONE, {(topic, 0): Fetched(1)}),
        groups[3]: (NONE, {(topic, 0): Fetched(3)}),
        groups[4]: (NONE, {}),
    }


def test_unknown_topics_are_fetched_by_name_without_an_error_and_by_id_with_one(connection, group, named):
    assert fetch(connection, 9, group, [("no-such-topic", [0])]) == (NONE, {("no-such-topic", 0): Fetched(NO_OFFSET)})
    error, offsets = fetch(connection, 10, group, [(NOBODY, [0, 1]), (named(10), [0])])
    unknown = Fetched(NO_OFFSET, error=UNKNOWN_TOPIC_ID)
    assert (error, offsets) == (NONE, {(NOBODY, 0): unknown, (NOBODY, 1): unknown, (named(10), 0): Fetched(NO_OFFSET)})


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_only_partitions_that_do_not_exist_are_refused(connection, group, named, version):
    topic = named(version)
    nothing = NOBODY if version >= BY_ID else "no-such-topic"
    asked = {place: Committed(1) for place in [(nothing, 0), (topic, 0), (topic, PARTITIONS), (topic, -1)]}
    assert commit(connection, version, group, asked) == {
        (nothing, 0): UNKNOWN_TOPIC_ID if version >= BY_ID else UNKNOWN_TOPIC_OR_PARTITION,
        (topic, 0): NONE,
        (topic, PARTITIONS): UNKNOWN_TOPIC_OR_PARTITION,
        (topic, -1): UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert fetch(connection, 10, group, None)[1].keys() == {(named(10), 0)}


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_member_of_an_unknown_group_cannot_commit(connection, group, named, version):
    topic = named(version)
    asked = {(topic, 0): Committed(1), (topic, PARTITIONS): Committed(1)}
    errors = commit(connection, version, group, asked, generation=5, member_id="somebody")
    refusal = GROUP_ID_NOT_FOUND if version >= 9 else ILLEGAL_GENERATION
    assert errors == {(topic, 0): refusal, (topic, PARTITIONS): UNKNOWN_TOPIC_OR_PARTITION}
    missing = {(topic, PARTITIONS): Committed(1)}
    assert commit(connection, version, group, missing, generation=5) == {
        (topic, PARTITIONS): UNKNOWN_TOPIC_OR_PARTITION
    }, "the group does not check offsets of partitions that do not exist"


def test_a_commit_with_a_generation_must_come_from_a_member(connection, group, topic):
    def errors(**who):
        return commit(connection, 9, group, {(topic, 0): Committed(1)}, **who)[topic, 0]

    assert errors() == NONE
    assert errors(member_id="somebody") == NONE, "the member id is not checked without a generation"
    assert errors(generation=0) == errors(generation=0, member_id="somebody") == UNKNOWN_MEMBER_ID
    assert errors(generation=3, member_id="somebody", instance="i") == UNKNOWN_MEMBER_ID


def test_the_metadata_limit_counts_characters_as_java_does(connection, group, topic):
    for text, error in [
        ("m" * 4096, NONE),
        ("m" * 4097, OFFSET_METADATA_TOO_LARGE),
        ("é" * 4096, NONE),
        ("𝄞" * 2048, NONE),
        ("𝄞" * 2049, OFFSET_METADATA_TOO_LARGE),
        (None, NONE),
    ]:
        asked = {(topic, 0): Committed(1, text), (topic, 1): Committed(2)}
        assert commit(connection, 9, group, asked) == {(topic, 0): error, (topic, 1): NONE}
    assert fetch(connection, 9, group, [(topic, [0])]).offsets[topic, 0].metadata == "", (
        "null is the same as an empty text"
    )


def test_any_number_is_an_offset(connection, group, topic):
    asked = {(topic, 0): Committed(-1), (topic, 1): Committed(-5), (topic, 2): Committed(2**63 - 1)}
    assert set(commit(connection, 9, group, asked).values()) == {NONE}
    found = fetch(connection, 9, group, None).offsets
    assert [found[topic, partition].offset for partition in range(3)] == [-1, -5, 2**63 - 1]


def test_a_group_may_have_no_name_unless_its_offsets_are_deleted(connection, topic):
    assert commit(connection, 9, "", {(topic, 0): Committed(5)}) == {(topic, 0): NONE}
    assert fetch(connection, 9, "", [(topic, [0])]) == (NONE, {(topic, 0): Fetched(5)})
    assert delete(connection, "", [(topic, [0])]) == (INVALID_GROUP_ID, {})


@pytest.mark.parametrize("retention_ms", [-1, 3_600_000, 2**62])
@pytest.mark.parametrize("version", [2, 4])
def test_old_clients_say_how_long_an_offset_is_kept(connection, group, topic, version, retention_ms):
    assert commit(connection, version, group, {(topic, 0): Committed(5, "m")}, retention_ms=retention_ms) == {
        (topic, 0): NONE
    }
    assert fetch(connection, 9, group, None) == (NONE, {(topic, 0): Fetched(5, "m")})


def test_a_group_of_offsets_only(connection, bootstrap, group, topic):
    nobody = Member(connection, group)
    assert nobody.describe().state == "Dead"
    commit(connection, 9, group, {(topic, 0): Committed(5)})
    described = nobody.describe()
    assert (described.error, described.state, described.protocol_type, described.protocol) == (NONE, "Empty", "", "")
    assert described.members == []
    assert nobody.delete() == NONE
    assert fetch(connection, 9, group, None) == (NONE, {})
    assert nobody.describe().state == "Dead"


# members


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_members_alone_commit(connection, alone, group, named, version):
    member = alone()
    topic = named(version)

    def error(**who):
        return commit(connection, version, group, {(topic, 0): Committed(1)}, **who)[topic, 0]

    generation, member_id = member.generation, member.member_id
    assert error() == UNKNOWN_MEMBER_ID
    assert error(generation=generation, member_id="somebody") == UNKNOWN_MEMBER_ID
    assert error(generation=generation + 1, member_id=member_id) == ILLEGAL_GENERATION
    assert error(generation=generation - 1, member_id=member_id) == ILLEGAL_GENERATION
    assert error(member_id=member_id) == ILLEGAL_GENERATION
    assert fetch(connection, 9, group, None) == (NONE, {})
    assert error(generation=generation, member_id=member_id) == NONE
    assert fetch(connection, 10, group, None) == (NONE, {(named(10), 0): Fetched(1)})
    member.leave()
    assert error() == NONE
    assert error(generation=generation, member_id=member_id) == UNKNOWN_MEMBER_ID


def test_a_joined_member_can_commit_when_all_are_assigned(connection, bootstrap, group, topic):
    member = Member(connection, group, protocols=[("range", subscription(topic))])
    member.join()
    who = {"generation": member.generation, "member_id": member.member_id}
    with connect(bootstrap) as other:
        assert commit(other, 9, group, {(topic, 0): Committed(1)}, **who) == {(topic, 0): REBALANCE_IN_PROGRESS}
        member.sync({member.member_id: b"all of it"})
        assert commit(other, 9, group, {(topic, 0): Committed(1)}, **who) == {(topic, 0): NONE}


def test_any_client_fetches_what_members_committed(connection, alone, group, topic):
    member = alone()
    commit(connection, 9, group, {(topic, 0): Committed(1)}, generation=member.generation, member_id=member.member_id)
    for who in ({}, {"member_id": "somebody"}, {"member_id": "somebody", "epoch": 7}, {"epoch": 7}):
        assert fetch_groups(connection, 9, [(group, None)], **who) == {group: (NONE, {(topic, 0): Fetched(1)})}


# deletion


def test_offsets_are_deleted_one_by_one(connection, group, topic):
    commit(connection, 9, group, {(topic, 0): Committed(1), (topic, 1): Committed(2)})
    assert delete(connection, group, [(topic, [0, 2, 99]), ("no-such-topic", [0])]) == (
        NONE,
        {
            (topic, 0): NONE,
            (topic, 2): NONE,
            (topic, 99): UNKNOWN_TOPIC_OR_PARTITION,
            ("no-such-topic", 0): UNKNOWN_TOPIC_OR_PARTITION,
        },
    )
    assert fetch(connection, 9, group, None) == (NONE, {(topic, 1): Fetched(2)})
    assert delete(connection, group, [(topic, [1])]) == (NONE, {(topic, 1): NONE})
    assert fetch(connection, 9, group, None) == (NONE, {})
    assert Member(connection, group).describe().state == "Empty", "the group survives the deletion of its last offset"
    assert delete(connection, group, []) == (NONE, {})


def test_a_group_that_does_not_exist_has_nothing_to_delete(connection, group, topic):
    assert delete(connection, group, [(topic, [0])]) == (GROUP_ID_NOT_FOUND, {})
    assert delete(connection, group, [("no-such-topic", [0])]) == (GROUP_ID_NOT_FOUND, {})


def test_offsets_of_topics_that_members_read_are_not_deleted(connection, alone, create_topic, group, topic):
    member = alone()
    other = create_topic()
    who = {"generation": member.generation, "member_id": member.member_id}
    commit(connection, 9, group, {(topic, 0): Committed(1), (other, 0): Committed(2)}, **who)
    assert delete(connection, group, [(topic, [0, 99]), (other, [0])]) == (
        NONE,
        {(topic, 0): GROUP_SUBSCRIBED_TO_TOPIC, (topic, 99): UNKNOWN_TOPIC_OR_PARTITION, (other, 0): NONE},
    )
    assert fetch(connection, 9, group, None) == (NONE, {(topic, 0): Fetched(1)})
    member.leave()
    assert delete(connection, group, [(topic, [0])]) == (NONE, {(topic, 0): NONE})


def test_offsets_are_kept_if_members_have_unknown_subscriptions(connection, alone, group, topic):
    member = alone(protocol_type="connect")
    assert delete(connection, group, [(topic, [0])]) == (NON_EMPTY_GROUP, {})
    member.leave()
    assert delete(connection, group, [(topic, [0])]) == (NONE, {(topic, 0): NONE})


# deleted topics


def test_offsets_are_deleted_with_their_topic(bootstrap, connection, create_topic, group, topic):
    other = create_topic()
    commit(connection, 9, group, {(topic, 0): Committed(5), (other, 0): Committed(6)})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic], operation_timeout=10)[topic].result(20)
    wait_until(lambda: fetch(connection, 9, group, None) == (NONE, {(other, 0): Fetched(6)}), seconds=20)
    admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=10)[topic].result(20)
    assert fetch(connection, 9, group, [(topic, [0])]) == (NONE, {(topic, 0): Fetched(NO_OFFSET)})


# stored records


def test_records_are_in_kafkas_format(bootstrap, connection, group, topic, named):
    commit(connection, 9, group, {(topic, 1): Committed(5, "nöte", leader_epoch=3)})
    delete(connection, group, [(topic, [1])])
    found = [(record.key, record.value) for record in read_internal_topic(bootstrap) if group.encode() in record.key]
    key = b"\x00\x01" + raw_text(group) + raw_text(topic) + (1).to_bytes(4)
    assert [each for each, _ in found] == [key, key]
    (_, value), (_, tombstone) = found
    start = b"\x00\x04" + (5).to_bytes(8) + (3).to_bytes(4) + b"\x06" + "nöte".encode()
    end = b"\x01\x00\x10" + named(10).bytes
    assert value.startswith(start) and value.endswith(end) and len(value) == len(start) + 8 + len(end)
    assert abs(int.from_bytes(value[len(start) :][:8]) / 1000 - time.time()) < 60
    assert tombstone is None


def raw_text(text):
    return len(text).to_bytes(2) + text.encode()


def read_internal_topic(bootstrap):
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        exclude_internal_topics=False,
        enable_auto_commit=False,
    )
    try:
        places = [
            TopicPartition("__consumer_offsets", each) for each in consumer.partitions_for_topic("__consumer_offsets")
        ]
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        records = []
        deadline = time.monotonic() + 20
        while any(consumer.position(place) < end for place, end in ends.items()):
            assert time.monotonic() < deadline
            records += [record for batch in consumer.poll(500).values() for record in batch]
        return records
    finally:
        consumer.close()
