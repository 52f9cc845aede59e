"""If members join, leave or are killed, every partition has one owner in the end, and no record is left out."""

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
def test_the_loss_of_a_member_is_noticed(flavour, topic, places, start_member, fill):
    dying = start_member(flavour, topic, session_ms=3000)
    wait_until_shared([dying], places)
    other = start_member(flavour, topic)
    wait_until_shared([dying, other], places)
    dying.kill()
    values = fill(topic, 20, PARTITIONS)
    other.wait_for_values(values)
    wait_until_shared([other], places)


@pytest.mark.parametrize("flavour", COOPERATIVE, ids=str)
def test_partitions_that_a_member_keeps_are_not_revoked_meanwhile(flavour, topic, places, start_member):
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


def test_four_different_clients_share_a_topic(topic, places, group, bootstrap, start_member, fill, librdkafka_admin):
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
        # the member leaves temporarily; until its session ends, its instance id is refused to other members
        second.leave()
    else:
        second.kill()
    again = start_member(flavour, topic, instance="second", **calm)
    values = fill(topic, 20, PARTITIONS)
    wait_until_shared([first, again], places)
    assert again.assigned == own
    wait_until_read([first, again], values)
    assert len(first.changes) == before, "the others were disturbed"


def test_the_first_of_two_members_with_one_instance_id_is_fenced(topic, places, start_member):
    flavour = Flavour("confluent", "range")
    first = start_member(flavour, topic, instance="same")
    wait_until_shared([first], places)
    second = start_member(flavour, topic, instance="same")
    wait_until_shared([second], places)
    wait_until(lambda: first.errors, PATIENCE_SECONDS, "the first member is told")
    assert "fenced" in first.errors[0]


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_a_member_that_does_not_poll_in_time_is_removed_until_it_polls_again(
    flavour, topic, places, start_member, fill
):
    # librdkafka checks this once a second, and allows no time shorter than the session.
    slow = start_member(flavour, topic, max_poll_ms=4000, session_ms=3000)
    wait_until_shared([slow], places)
    quick = start_member(flavour, topic)
    wait_until_shared([slow, quick], places)
    slow.rest()
    wait_until(lambda: quick.assigned == places, PATIENCE_SECONDS, "the other member takes over")
    values = fill(topic, 20, PARTITIONS)
    quick.wait_for_values(values)
    slow.work()
    wait_until_shared([slow, quick], places)


@pytest.mark.parametrize("flavour", ONE_OF_EACH_CLIENT, ids=str)
def test_a_frozen_member_returns_as_a_new_member(flavour, topic, places, start_member, fill):
    frozen = start_member(flavour, topic, session_ms=3000)
    wait_until_shared([frozen], places)
    other = start_member(flavour, topic)
    wait_until_shared([frozen, other], places)
    frozen.freeze()
    wait_until(lambda: other.assigned == places, PATIENCE_SECONDS, "the other member takes over")
    values = fill(topic, 20, PARTITIONS)
    other.wait_for_values(values)
    frozen.thaw()
    wait_until_shared([frozen, other], places)
    values |= fill(topic, 20, PARTITIONS)
    wait_until_read([frozen, other], values)
