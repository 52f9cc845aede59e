"""kafka-python's admin client manages topics, partitions, configs and offsets."""

import pytest
from clients.kafka_python import read
from kafka import TopicPartition
from kafka.admin import ConfigResource
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from waiting import wait_until


def test_the_cluster_is_described(admin, bootstrap):
    cluster = admin.describe_cluster()
    assert cluster["cluster_id"]
    addresses = [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]
    assert bootstrap.split(",")[0] in addresses
    assert cluster["controller_id"] in [broker["broker_id"] for broker in cluster["brokers"]]


def test_a_topic_lives_from_creation_to_deletion(admin, create_topic):
    topic = create_topic(partitions=3)
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert described["error_code"] == 0
    assert sorted(partition["partition_index"] for partition in described["partitions"]) == [0, 1, 2]
    admin.delete_topics([topic])
    wait_until(lambda: topic not in admin.list_topics(), what="the topic is no longer listed")


def test_a_topic_created_again_is_empty_and_has_another_id(admin, create_topic, make_producer, make_consumer):
    topic = create_topic()
    make_producer().send(topic, b"old", partition=0).get(timeout=20)
    (before,) = admin.describe_topics([topic])
    admin.delete_topics([topic])
    wait_until(lambda: topic not in admin.list_topics(), what="the topic is no longer listed")
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    (after,) = admin.describe_topics([topic])
    assert after["topic_id"] != before["topic_id"]
    assert make_consumer(topic).end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}
    make_producer().send(topic, b"new", partition=0).get(timeout=20)
    assert [record.value for record in read(make_consumer(topic), 1)] == [b"new"]


def test_what_cannot_be_created_is_refused(admin, topic):
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    for name in ("with space", "", ".", "..", "x" * 250, "a/b"):
        with pytest.raises(InvalidTopicError):
            admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
    with pytest.raises(InvalidPartitionsError):
        admin.create_topics({topic + "-none": {"num_partitions": 0, "replication_factor": 1}})
    with pytest.raises(InvalidReplicationFactorError):
        admin.create_topics({topic + "-many": {"num_partitions": 1, "replication_factor": 99}})
    with pytest.raises(InvalidConfigurationError):
        options = {"num_partitions": 1, "replication_factor": 1, "configs": {"no.such.config": "1"}}
        admin.create_topics({topic + "-config": options})
    with pytest.raises(InvalidConfigurationError):
        options = {"num_partitions": 1, "replication_factor": 1, "configs": {"retention.ms": "often"}}
        admin.create_topics({topic + "-value": options})


def test_validating_a_creation_creates_nothing(admin, topic):
    admin.create_topics({topic + "-dry": {"num_partitions": 1, "replication_factor": 1}}, validate_only=True)
    assert topic + "-dry" not in admin.list_topics()


def test_the_defaults_of_the_broker_apply_to_a_topic_that_names_none(admin, topic):
    name = topic + "-defaults"
    created = admin.create_topics([name], wait_for_metadata=True)
    assert created["topics"][0]["num_partitions"] == 1
    assert created["topics"][0]["replication_factor"] == 1
    admin.delete_topics([name])


def test_an_unknown_topic_cannot_be_deleted(admin, topic):
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic + "-unknown"])


def test_partitions_can_be_added_and_not_removed(admin, topic, make_producer, make_consumer):
    make_producer().send(topic, b"before", partition=0).get(timeout=20)
    admin.create_partitions({topic: 4})

    def partitions():
        return len(admin.describe_topics([topic])[0]["partitions"])

    wait_until(lambda: partitions() == 4, what="four partitions")
    make_producer().send(topic, b"after", partition=3).get(timeout=20)
    records = read(make_consumer(topic, partitions=4), 2)
    assert {(record.partition, record.value) for record in records} == {(0, b"before"), (3, b"after")}
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 2})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 4})


def test_configs_are_described_changed_and_reset(admin, create_topic):
    topic = create_topic(retention_ms="12345")

    def config(name, config_filter="all"):
        resource = ConfigResource("TOPIC", topic)
        return admin.describe_configs([resource], config_filter=config_filter)["topic"][topic].get(name)

    assert config("retention.ms")["value"] == "12345"
    assert config("cleanup.policy")["value"] == "delete"
    assert config("segment.bytes")["value"] == str(1 << 30)
    assert config("max.message.bytes", "modified") is None
    admin.alter_configs([ConfigResource("TOPIC", topic, {"max.message.bytes": "2000"})])
    wait_until(
        lambda: (config("max.message.bytes", "modified") or {}).get("value") == "2000", what="the change is visible"
    )
    assert config("retention.ms")["value"] == "12345", "other configs stay as they were"
    admin.reset_configs([ConfigResource("TOPIC", topic, ["retention.ms"])])
    wait_until(lambda: config("retention.ms")["value"] == "604800000", what="the default applies again")


def test_a_changed_config_works_at_once(admin, topic, make_producer):
    producer = make_producer(enable_idempotence=False, retries=0)
    assert producer.send(topic, b"x" * 3000, partition=0).get(timeout=20).offset == 0
    admin.alter_configs([ConfigResource("TOPIC", topic, {"max.message.bytes": "2000"})])

    def refused():
        try:
            producer.send(topic, b"x" * 3000, partition=0).get(timeout=20)
        except Exception as error:
            return "MessageSizeTooLarge" in repr(error)
        return False

    wait_until(refused, what="the smaller limit applies")


def test_every_broker_config_has_a_value_or_says_so(admin):
    broker = admin.describe_cluster()["brokers"][0]["broker_id"]
    configs = admin.describe_configs([ConfigResource("BROKER", str(broker))], config_filter="all")["broker"][
        str(broker)
    ]
    assert {"log.retention.hours", "num.partitions", "auto.create.topics.enable", "message.max.bytes"} <= set(configs)


def test_deleted_records_are_gone_and_offsets_stay(admin, topic, make_producer, make_consumer):
    producer = make_producer()
    for number in range(50):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush(timeout=30)
    partition = TopicPartition(topic, 0)
    assert admin.delete_records({partition: 20})[partition]["low_watermark"] == 20
    consumer = make_consumer(topic)
    assert consumer.beginning_offsets([partition]) == {partition: 20}
    assert consumer.end_offsets([partition]) == {partition: 50}
    assert [record.offset for record in read(consumer, 30)] == list(range(20, 50))
    assert admin.delete_records({partition: -1})[partition]["low_watermark"] == 50
    assert consumer.beginning_offsets([partition]) == {partition: 50}
    assert producer.send(topic, b"next", partition=0).get(timeout=20).offset == 50


def test_deleting_records_beyond_the_end_is_refused(admin, topic):
    with pytest.raises(Exception, match="OffsetOutOfRange"):
        admin.delete_records({TopicPartition(topic, 0): 5})


def test_log_dirs_tell_the_size_of_a_partition(admin, topic, make_producer):
    make_producer().send(topic, b"x" * 10_000, partition=0).get(timeout=20)
    ((directory,),) = [broker["log_dirs"] for broker in admin.describe_log_dirs([topic])]
    assert directory["error_code"] == 0
    ((found,),) = [entry["partitions"] for entry in directory["topics"] if entry["name"] == topic]
    assert found["partition_index"] == 0
    assert 10_000 < found["partition_size"] < 20_000


def test_topic_partitions_are_described_page_by_page(admin, create_topic):
    topic = create_topic(partitions=5)
    page = admin.describe_topic_partitions([topic], response_partition_limit=3)
    assert [partition["partition_index"] for partition in page["topics"][0]["partitions"]] == [0, 1, 2]
    rest = admin.describe_topic_partitions([topic], cursor=page["next_cursor"])
    assert [partition["partition_index"] for partition in rest["topics"][0]["partitions"]] == [3, 4]
    assert rest["next_cursor"] is None


def test_offsets_are_listed_by_specification(admin, topic, make_producer):
    producer = make_producer()
    for timestamp in (1000, 3000, 2000):
        producer.send(topic, b"v", partition=0, timestamp_ms=timestamp)
    producer.flush(timeout=30)
    partition = TopicPartition(topic, 0)

    def offset(specification):
        return admin.list_partition_offsets({partition: specification})[partition].offset

    assert offset(-2) == 0
    assert offset(-1) == 3
    assert offset(-3) == 1, "the record with the largest timestamp"
    assert offset(2500) == 1
