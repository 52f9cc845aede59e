"""A cluster of three SPUs works like a single broker, whichever server a client starts with."""

import asyncio
import collections

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from clients.librdkafka import produce, read
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import InvalidReplicationFactorError, TopicAlreadyExistsError
from spu_cluster import cli, objects
from waiting import wait_until

PARTITIONS = 6


@pytest.fixture(params=["an SPU", "the SC"])
def admin(request, cluster, make_admin):
    """Yields an admin client that starts with an SPU or with the SC."""
    return make_admin(cluster.bootstrap.split(",")[-1] if request.param == "an SPU" else cluster.sc)


def topic_of(admin, name):
    (described,) = admin.describe_topics([name])
    return described


def leaders_of(admin, name):
    return {each["partition_index"]: each["leader_id"] for each in topic_of(admin, name)["partitions"]}


def create(admin, name, partitions=PARTITIONS, replication_factor=1, **configs):
    admin.create_topics(
        {name: {"num_partitions": partitions, "replication_factor": replication_factor, "configs": configs}}
    )


def test_all_spus_are_brokers_and_one_of_them_takes_admin_requests(cluster, admin):
    described = admin.describe_cluster()
    assert sorted(broker["broker_id"] for broker in described["brokers"]) == list(cluster.ids)
    addresses = {f"{broker['host']}:{broker['port']}" for broker in described["brokers"]}
    assert addresses == set(cluster.bootstrap.split(","))
    assert described["controller_id"] in cluster.ids


def test_a_topic_is_known_everywhere_once_created_and_nowhere_once_deleted(cluster, admin, make_admin, name):
    create(admin, name)
    everywhere = [make_admin(address) for address in (*cluster.bootstrap.split(","), cluster.sc)]
    for other in everywhere:
        wait_until(lambda other=other: name in other.list_topics(), what="the topic is known everywhere")
    assert sorted(leaders_of(admin, name).values()) == sorted([*cluster.ids] * 2)
    with pytest.raises(TopicAlreadyExistsError):
        create(admin, name)
    admin.delete_topics([name])
    for other in everywhere:
        wait_until(lambda other=other: name not in other.list_topics(), what="the topic is deleted everywhere")


def test_partitions_are_added_on_the_spus_that_lead_least(cluster, admin, name):
    create(admin, name, partitions=1)
    admin.create_partitions({name: 3})
    wait_until(lambda: sorted(leaders_of(admin, name).values()) == sorted(cluster.ids), what="three leaders")


def test_configs_are_changed_through_any_server(cluster, admin, make_admin, name):
    create(admin, name, **{"retention.ms": "1000000"})
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "2000000"})])
    for address in (*cluster.bootstrap.split(","), cluster.sc):
        other = make_admin(address)

        def retention(other=other):
            (described,) = (other.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]),)
            return str(described)

        wait_until(lambda retention=retention: "2000000" in retention(), what="the config is known everywhere")


def test_kafka_clients_cannot_have_more_copies_than_spus(admin, name):
    with pytest.raises(InvalidReplicationFactorError):
        create(admin, name, replication_factor=4)
    assert name not in admin.list_topics()


def test_records_go_to_the_leaders_on_all_spus_and_come_back(cluster, admin, name):
    create(admin, name)
    producer = Producer({"bootstrap.servers": cluster.sc, "linger.ms": 0})
    for partition in range(PARTITIONS):
        produce(producer, name, [b"%d-%d" % (partition, number) for number in range(50)], partition=partition)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    by_partition = collections.defaultdict(list)
    for message in read(consumer, PARTITIONS * 50):
        by_partition[message.partition()].append(message.value())
    consumer.close()
    assert by_partition == {
        partition: [b"%d-%d" % (partition, number) for number in range(50)] for partition in range(PARTITIONS)
    }


def test_aiokafka_finds_the_leaders_too(cluster, admin, name):
    create(admin, name)

    async def story():
        async with AIOKafkaProducer(bootstrap_servers=cluster.sc, acks="all") as producer:
            for partition in range(PARTITIONS):
                await producer.send_and_wait(name, b"%d" % partition, partition=partition)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
        )
        async with consumer:
            consumer.assign([AioTopicPartition(name, partition) for partition in range(PARTITIONS)])
            return {record.value async for record in _first(consumer, PARTITIONS)}

    async def _first(consumer, count):
        for _ in range(count):
            yield await consumer.getone()

    async def main():
        async with asyncio.timeout(40):
            return await story()

    assert asyncio.run(main()) == {b"%d" % partition for partition in range(PARTITIONS)}


def test_the_command_line_shows_what_kafka_clients_made(cluster, admin, name):
    create(admin, name)
    (topic,) = [each for each in objects(cluster.sc, "topic") if each["name"] == name]
    assert topic["status"]["resolution"] == "Provisioned"
    assert len(topic["status"]["replicaMap"]) == PARTITIONS
    status, output = cli(cluster.sc, "partition", "list", name)
    assert status == 0, output
    assert output.count("Online") == PARTITIONS


def test_kafka_clients_see_what_the_command_line_made(cluster, admin, name):
    status, output = cli(
        cluster.sc, *("topic", "create", name, "--partitions", "3", "--replication-factor", "3", "--wait", "20")
    )
    assert status == 0, output
    wait_until(lambda: name in admin.list_topics(), what="the topic is known")
    for partition in topic_of(admin, name)["partitions"]:
        assert sorted(partition["replica_nodes"]) == list(cluster.ids)
    status, output = cli(cluster.sc, "topic", "delete", name)
    assert status == 0, output
    wait_until(lambda: name not in admin.list_topics(), what="the topic is deleted")
