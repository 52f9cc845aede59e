"""Members that come, go and die: in the end every partition has one owner, and no record was left out."""

import pytest
from clients.java import JavaConsumer
from waiting import wait_until

from .members import FLAVOURS, ONE_OF_EACH_CLIENT, PATIENCE_SECONDS, Flavour, wait_until_read, wait_until_shared

PARTITIONS = 6
STATIC = [Flavour("kafka-python", "range"), Flavour("confluent", "range"), Flavour("confluent-consumer", "uniform")]
COOPERATIVE = [flavour for flavour in FLAVOURS if flavour.is_cooperative]


@pytest.fixture
def topic(create_topic):
    return create_topic(partitions=PARTITIONS)


@pytest.fixture
def places(topic):
    return {(topic, partition) for partition in range(PARTITIONS)}


@pytest.mark.parametrize("flavour", FLAVOURS, ids=str)
def test_members_join_and_leave(flavour, topic, places, start_member, fill):
    values = fill(topic, 20, PARTITIONS)
    first = start_member(flavour, topic)
    wait_until_shared([first], places)
    second = start_member(flavour, topic)
    wait_until_shared([first, second], places)
    values |= fill(topic, 20, PARTITIONS)
    third = start_member(flavour, topic)
    wait_until_shared([first, second, third], places)
    values |= fill(topic, 20, PARTITIONS)
    second.leave()
    wait_until_shared([first, third], places)
    values |= fill(topic, 20, PARTITIONS)
    wait_until_read([first, second, third], values)
    assert not (first.errors + second.errors + third.errors)


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_a_member_that_dies_is_missed(flavour, topic, places, start_member, fill):
    dying = start_member(flavour, topic, session_ms=3000)
    wait_until_shared([dying], places)
    other = start_member(flavour, topic)
    wait_until_shared([dying, other], places)
    dying.kill()
    values = fill(topic, 20, PARTITIONS)
    other.wait_for_values(values)
    wait_until_shared([other], places)


@pytest.mark.parametrize("flavour", COOPERATIVE, ids=str)
def test_what_a_member_keeps_is_not_taken_away_in_between(flavour, topic, places, start_member):
    first = start_member(flavour, topic)
    wait_until_shared([first], places)
    second = start_member(flavour, topic)
    wait_until_shared([first, second], places)
    taken = [some for what, some in first.changes if what != "assigned"]
    assert sorted(place for some in taken for place in some) == sorted(second.assigned)
    kept = first.assigned
    second.leave()
    wait_until_shared([first], places)
    assert not [some & kept for what, some in first.changes if what != "assigned" and some & kept]


def test_clients_of_four_makers_share_a_topic(topic, places, group, bootstrap, start_member, fill, librdkafka_admin):
    values = fill(topic, 50, PARTITIONS)
    members = [start_member(Flavour(client, "range"), topic) for client in ("kafka-python", "aiokafka", "confluent")]
    range_assignor = {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor"}
    with JavaConsumer(bootstrap, topic, group, range_assignor) as java:

        def shares():
            described = librdkafka_admin.describe_consumer_groups([group], request_timeout=10)[group].result(20)
            return [
                {(each.topic, each.partition) for each in member.assignment.topic_partitions}
                for member in described.members
            ]

        def are_shared():
            owned = shares()
            return len(owned) == 4 and all(owned) and sum(map(len, owned)) == PARTITIONS and set.union(*owned) == places

        def others():
            return [share for share in shares() if share not in [set(member.assigned) for member in members]]

        wait_until(lambda: are_shared() and len(others()) == 1, PATIENCE_SECONDS, "four members share the topic")
        (left_for_java,) = others()
        values |= fill(topic, 50, PARTITIONS)
        wait_until_read([*members, java], values)
        assert {value.split("-")[-2] for value in java.values} >= {str(partition) for _, partition in left_for_java}


@pytest.mark.parametrize("flavour", STATIC, ids=str)
def test_a_static_member_that_restarts_disturbs_nobody(flavour, topic, places, start_member, fill):
    calm = {"session_ms": 20_000}
    first = start_member(flavour, topic, instance="first", **calm)
    wait_until_shared([first], places)
    second = start_member(flavour, topic, instance="second", **calm)
    wait_until_shared([first, second], places)
    before, own = len(first.changes), second.assigned
    if flavour.client == "confluent-consumer":
        second.leave()  # for a while, it says: until its session ended, its instance id would be refused to others
    else:
        second.kill()
    again = start_member(flavour, topic, instance="second", **calm)
    values = fill(topic, 20, PARTITIONS)
    wait_until_shared([first, again], places)
    assert again.assigned == own
    wait_until_read([first, again], values)
    assert len(first.changes) == before, "the others were disturbed"


def test_the_first_of_two_with_one_instance_id_is_fenced(topic, places, start_member):
    flavour = Flavour("confluent", "range")
    first = start_member(flavour, topic, instance="same")
    wait_until_shared([first], places)
    second = start_member(flavour, topic, instance="same")
    wait_until_shared([second], places)
    wait_until(lambda: first.errors, PATIENCE_SECONDS, "the first one is told")
    assert "fenced" in first.errors[0]


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_who_does_not_poll_in_time_is_out_until_it_polls_again(flavour, topic, places, start_member, fill):
    # librdkafka looks at it once a second, and allows no less than the length of a session.
    slow = start_member(flavour, topic, max_poll_ms=4000, session_ms=3000)
    wait_until_shared([slow], places)
    quick = start_member(flavour, topic)
    wait_until_shared([slow, quick], places)
    slow.rest()
    wait_until(lambda: quick.assigned == places, PATIENCE_SECONDS, "the other one takes over")
    values = fill(topic, 20, PARTITIONS)
    quick.wait_for_values(values)
    slow.work()
    wait_until_shared([slow, quick], places)


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_who_was_frozen_returns_as_another_member(flavour, topic, places, start_member, fill):
    frozen = start_member(flavour, topic, session_ms=3000)
    wait_until_shared([frozen], places)
    other = start_member(flavour, topic)
    wait_until_shared([frozen, other], places)
    frozen.freeze()
    wait_until(lambda: other.assigned == places, PATIENCE_SECONDS, "the other one takes over")
    values = fill(topic, 20, PARTITIONS)
    other.wait_for_values(values)
    frozen.thaw()
    wait_until_shared([frozen, other], places)
    values |= fill(topic, 20, PARTITIONS)
    wait_until_read([frozen, other], values)
