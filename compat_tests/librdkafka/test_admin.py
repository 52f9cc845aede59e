"""librdkafka's admin client manages topics, partitions, configs and offsets."""

import uuid

import pytest
from clients.librdkafka import produce, read
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from waiting import wait_until


def only(futures):
    """Returns the result of the only future in a dictionary."""
    (future,) = futures.values()
    return future.result(20)


def error_code(futures):
    with pytest.raises(KafkaException) as caught:
        only(futures)
    return caught.value.args[0].code()


def test_the_cluster_is_described(admin):
    cluster = admin.describe_cluster().result(20)
    metadata = admin.list_topics(timeout=10)
    assert cluster.cluster_id == metadata.cluster_id
    assert {node.id for node in cluster.nodes} == set(metadata.brokers)
    assert cluster.controller.id in metadata.brokers


def test_a_topic_is_described_with_its_id(admin, create_topic):
    topic = create_topic(partitions=3)
    described = only(admin.describe_topics(TopicCollection([topic])))
    assert described.name == topic and not described.is_internal
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert all(partition.leader.id in [node.id for node in partition.replicas] for partition in described.partitions)
    assert str(described.topic_id)


def test_many_topics_are_created_and_deleted_in_one_request(admin):
    names = [f"many-{number}-{uuid.uuid4().hex[:8]}" for number in range(20)]
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in names], operation_timeout=30).values():
        future.result(30)
    wait_until(lambda: set(names) <= set(admin.list_topics(timeout=10).topics), what="all topics are listed")
    for future in admin.delete_topics(names, operation_timeout=30).values():
        future.result(30)
    wait_until(lambda: not set(names) & set(admin.list_topics(timeout=10).topics), what="no topic is listed")


def test_what_cannot_be_done_is_refused_with_its_code(admin, topic):
    assert error_code(admin.create_topics([NewTopic(topic, 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    assert error_code(admin.create_topics([NewTopic("a b", 1, 1)])) == KafkaError.TOPIC_EXCEPTION
    assert error_code(admin.create_topics([NewTopic(topic + "x", 1, 9)])) == KafkaError.INVALID_REPLICATION_FACTOR
    assert error_code(admin.delete_topics([topic + "x"])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert error_code(admin.create_partitions([NewPartitions(topic, 1)])) == KafkaError.INVALID_PARTITIONS
    assert error_code(admin.describe_topics(TopicCollection([topic + "x"]))) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_on_named_brokers(admin, topic):
    (node, *_) = admin.list_topics(timeout=10).brokers
    name = topic + "-assigned"
    only(admin.create_topics([NewTopic(name, 2, replica_assignment=[[node], [node]])], operation_timeout=30))
    wait_until(lambda: len(admin.list_topics(name, timeout=10).topics[name].partitions) == 2, what="two partitions")
    admin.delete_topics([name])[name].result(20)


def test_partitions_are_added(admin, topic, make_producer, make_consumer):
    only(admin.create_partitions([NewPartitions(topic, 3)], operation_timeout=30))
    wait_until(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 3, what="three partitions")
    produce(make_producer(), topic, [b"new"], partition=2)
    assert read(make_consumer(topic, partitions=3), 1)[0].partition() == 2


def test_configs_are_altered_one_by_one(admin, create_topic):
    topic = create_topic(retention_ms="5000")

    def value(name):
        return only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))[name]

    assert value("retention.ms").value == "5000" and not value("retention.ms").is_default
    assert value("segment.bytes").is_default
    change = [
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
    ]
    only(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=change)]))
    wait_until(lambda: value("cleanup.policy").value == "delete,compact", what="the policy is appended to")
    assert value("retention.ms").is_default
    bad = [ConfigEntry("retention.ms", "often", incremental_operation=AlterConfigOpType.SET)]
    futures = admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=bad)])
    assert error_code(futures) == KafkaError.INVALID_CONFIG


def test_a_broker_config_that_does_not_exist_is_kept_and_a_wrong_value_of_one_that_does_is_refused(admin):
    (node, *_) = admin.list_topics(timeout=10).brokers
    name = f"plugin.{uuid.uuid4().hex[:8]}.setting"

    def alter(config, value, operation):
        change = [ConfigEntry(config, value, incremental_operation=operation)]
        resource = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=change)
        return admin.incremental_alter_configs([resource])

    def found():
        return only(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node))])).get(name)

    only(alter(name, "secret", AlterConfigOpType.SET))
    wait_until(lambda: found() is not None, what="the config is listed")
    assert (found().value, found().is_sensitive, found().is_read_only, found().is_default) == (None, True, True, False)
    only(alter(name, None, AlterConfigOpType.DELETE))
    wait_until(lambda: found() is None, what="the config is no longer listed")
    with pytest.raises(KafkaException):
        only(alter(name, "secret", AlterConfigOpType.APPEND))
    assert error_code(alter("log.cleaner.threads", "many", AlterConfigOpType.SET)) == KafkaError.INVALID_REQUEST


def test_records_are_deleted_up_to_an_offset(admin, topic, make_producer, make_consumer):
    produce(make_producer(), topic, [b"%d" % number for number in range(10)], partition=0)
    assert only(admin.delete_records([TopicPartition(topic, 0, 4)])).low_watermark == 4
    assert [record.offset() for record in read(make_consumer(topic), 6)] == [4, 5, 6, 7, 8, 9]
    assert error_code(admin.delete_records([TopicPartition(topic, 0, 11)])) == KafkaError.OFFSET_OUT_OF_RANGE


def test_offsets_are_listed(admin, topic, make_producer):
    for timestamp in (1000, 3000, 2000):
        produce(make_producer(), topic, [b"v"], partition=0, timestamp=timestamp)

    def offset(specification):
        return only(admin.list_offsets({TopicPartition(topic, 0): specification})).offset

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 3
    assert offset(OffsetSpec.max_timestamp()) == 1
    assert offset(OffsetSpec.for_timestamp(1500)) == 1
