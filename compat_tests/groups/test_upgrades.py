"""Groups that change their protocol while they work: members are replaced one by one, and miss no records."""

import pytest
from clients.java import JavaConsumer
from confluent_kafka import ConsumerGroupType
from waiting import wait_until

from .members import ONE_OF_EACH_CLIENT, PATIENCE_SECONDS, Flavour, wait_until_read, wait_until_shared

PARTITIONS = 4
KAFKA_PYTHON, _, CLASSIC, CONSUMER_PROTOCOL = ONE_OF_EACH_CLIENT
COOPERATIVE = Flavour("confluent", "cooperative-sticky")


@pytest.fixture
def topic(create_topic):
    return create_topic(partitions=PARTITIONS)


@pytest.fixture
def places(topic):
    return {(topic, partition) for partition in range(PARTITIONS)}


@pytest.fixture
def kind(librdkafka_admin, group):
    def of_the_group():
        return librdkafka_admin.describe_consumer_groups([group], request_timeout=10)[group].result(20).type

    return of_the_group


@pytest.mark.parametrize("classic", [KAFKA_PYTHON, CLASSIC], ids=str)
def test_a_group_is_upgraded_member_by_member_and_back(classic, topic, places, start_member, fill, kind):
    values = fill(topic, 20, PARTITIONS)
    members = [start_member(classic, topic) for _ in range(2)]
    wait_until_shared(members, places)
    assert kind() == ConsumerGroupType.CLASSIC
    everybody = list(members)

    def replace(flavour):
        """Replaces one of the members."""
        members.append(start_member(flavour, topic))
        everybody.append(members[-1])
        wait_until_shared(members, places)
        members.pop(0).leave()
        wait_until_shared(members, places)
        return fill(topic, 10, PARTITIONS)

    values |= replace(CONSUMER_PROTOCOL)
    assert kind() == ConsumerGroupType.CONSUMER
    values |= replace(CONSUMER_PROTOCOL)
    assert kind() == ConsumerGroupType.CONSUMER
    values |= replace(classic)
    values |= replace(classic)
    assert kind() == ConsumerGroupType.CLASSIC
    wait_until_read(everybody, values)
    wait_until(lambda: set().union(*[member.committed for member in members]) == places, PATIENCE_SECONDS)
    read_twice = sum(len(member.values) for member in everybody) - len(values)
    assert read_twice == 0, "committed records were read again"


def test_a_working_group_whose_assignor_has_private_data_is_not_upgraded(topic, places, start_member, kind):
    """librdkafka's cooperative assignor sends earlier owners data of its own format, which no other client reads."""
    members = [start_member(COOPERATIVE, topic)]
    wait_until_shared(members, places)
    members.append(start_member(COOPERATIVE, topic))
    wait_until_shared(members, places)
    refused = start_member(CONSUMER_PROTOCOL, topic)
    wait_until(lambda: refused.errors, PATIENCE_SECONDS, "the member is refused")
    assert "group id does not exist" in refused.errors[0]
    assert kind() == ConsumerGroupType.CLASSIC
    wait_until_shared(members, places)


def test_java_members_of_both_protocols_share_a_group(topic, group, bootstrap, fill, librdkafka_admin):
    values = fill(topic, 20, PARTITIONS)

    def shares():
        described = librdkafka_admin.describe_consumer_groups([group], request_timeout=10)[group].result(20)
        return sorted(len(member.assignment.topic_partitions) for member in described.members)

    with (
        JavaConsumer(bootstrap, topic, group) as classic,
        JavaConsumer(bootstrap, topic, group, {"group.protocol": "consumer"}) as new,
    ):
        wait_until(lambda: shares() == [2, 2], PATIENCE_SECONDS, "they share")
        values |= fill(topic, 20, PARTITIONS)
        wait_until_read([classic, new], values)
        classic.leave()
        wait_until(lambda: shares() == [4], PATIENCE_SECONDS, "the other member takes over")


def test_an_empty_group_takes_either_protocol(topic, places, start_member, fill, kind):
    values = fill(topic, 20, PARTITIONS)
    first = start_member(CLASSIC, topic)
    first.wait_for_values(values)
    wait_until(lambda: set(first.committed.values()) == {20} and len(first.committed) == PARTITIONS)
    first.leave()
    second = start_member(CONSUMER_PROTOCOL, topic)
    wait_until_shared([second], places)
    assert kind() == ConsumerGroupType.CONSUMER
    more = fill(topic, 5, PARTITIONS)
    second.wait_for_values(more)
    assert set(second.values) == more
    wait_until(lambda: set(second.committed.values()) == {25} and len(second.committed) == PARTITIONS)
    second.leave()
    third = start_member(KAFKA_PYTHON, topic)
    wait_until_shared([third], places)
    assert kind() == ConsumerGroupType.CLASSIC
    rest = fill(topic, 5, PARTITIONS)
    third.wait_for_values(rest)
    assert set(third.values) == rest
