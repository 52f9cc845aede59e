"""Stock clients with access rules: what they are told, and how a change of the rules reaches them.

The cases of Kafka's AuthorizerIntegrationTest that are about consumers and producers. Each test has a topic of its own.
"""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from brokers import is_apache_kafka
from clients.java import run_tool
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from security.guarded import USER, GuardedBroker
from topics import topic_creator

SECONDS_MAX = 20


@pytest.fixture
def topic(request: pytest.FixtureRequest, guarded: GuardedBroker) -> str:
    """Returns a topic with one record, which alice may not see."""
    name = topic_creator(guarded.open_address, request.node.name)()
    producer = Producer({"bootstrap.servers": guarded.open_address})
    producer.produce(name, b"first")
    assert producer.flush(SECONDS_MAX) == 0
    return name


def allow(guarded: GuardedBroker, *words: str) -> None:
    guarded.run("acl", "create", USER, *words)


def forbid(guarded: GuardedBroker, *words: str) -> None:
    guarded.run("acl", "delete", USER, *words)


def delivered(guarded: GuardedBroker, topic: str, value: bytes = b"x", **settings: Any) -> KafkaError | None:
    """Produces one record as alice, and returns the error of its delivery."""
    errors: list[KafkaError | None] = []
    producer = Producer(guarded.librdkafka(**{"message_timeout_ms": 8000} | settings))
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(SECONDS_MAX)
    return errors[0]


def polled(consumer: Consumer, found: Callable[[Message], bool]) -> Message:
    """Polls until a message or an error comes that is looked for."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and found(message):
            return message
    raise TimeoutError("nothing came")


def is_refused_for_topic(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_producer_needs_write(guarded: GuardedBroker, topic: str) -> None:
    """testProduceWithNoTopicAccess, …TopicDescribe, …TopicRead, …TopicWrite"""
    for operation in ("describe", "read"):
        allow(guarded, operation, "--topic", topic)
        error = delivered(guarded, topic)
        assert error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(guarded, "write", "--topic", topic)
    assert delivered(guarded, topic) is None
    assert delivered(guarded, topic, enable_idempotence=True) is None


def test_kafka_python_gets_its_errors(guarded: GuardedBroker, topic: str) -> None:
    """testConsumeUsingAssignWithNoAccess, testConsumeWithTopicAndGroupRead, and a producer"""
    producer = KafkaProducer(**guarded.kafka_python(enable_idempotence=False, max_block_ms=5000))
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(topic, b"x").get(SECONDS_MAX)
    allow(guarded, "read", "--topic", topic)
    consumer = KafkaConsumer(topic, **guarded.kafka_python(group_id=topic, auto_offset_reset="earliest"))
    with pytest.raises(GroupAuthorizationFailedError):
        consumer.poll(5000)
    consumer.close()
    allow(guarded, "read", "--group", topic)
    consumer = KafkaConsumer(
        topic, **guarded.kafka_python(group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=15_000)
    )
    assert next(consumer).value == b"first"
    consumer.close()
    producer.close(timeout=1)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_needs_the_group_and_a_pattern_shows_only_what_may_be_described(
    guarded: GuardedBroker, topic: str, protocol: str
) -> None:
    """testPatternSubscription: WithNoTopicAccess, WithTopicDescribeOnlyAndGroupRead, WithTopicAndGroupRead"""
    settings = guarded.librdkafka(group_id=topic, group_protocol=protocol, auto_offset_reset="earliest")
    settings |= {"topic.metadata.refresh.interval.ms": 500}
    consumer = Consumer(settings)
    consumer.subscribe([f"^{re.escape(topic)}.*"])
    refused = polled(consumer, lambda message: message.error() is not None)
    assert refused.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()
    allow(guarded, "read", "--group", topic)
    consumer = Consumer(settings)
    consumer.subscribe([f"^{re.escape(topic)}.*"])
    # The classic client matches the pattern itself, and says that there is no such topic.
    nothing = consumer.poll(2)
    assert nothing is None or nothing.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert consumer.assignment() == []
    allow(guarded, "describe", "--topic", topic)
    assert polled(consumer, is_refused_for_topic).error() is not None
    allow(guarded, "read", "--topic", topic)
    assert polled(consumer, lambda message: message.error() is None).value() == b"first"
    consumer.close()


def test_a_pattern_matches_internal_topics_if_the_client_wants_them_and_may(guarded: GuardedBroker, topic: str) -> None:
    """testPatternSubscription: NotMatchingInternalTopic, MatchingInternalTopicWithDescribeOnlyPermission,
    MatchingInternalTopic"""
    allow(guarded, "read", "--topic", topic, "--group", topic)
    allow(guarded, "describe", "--topic", "__consumer_offsets")

    def subscribe(*, excludes: bool) -> KafkaConsumer:
        settings = guarded.kafka_python(group_id=topic, exclude_internal_topics=excludes, enable_auto_commit=False)
        consumer = KafkaConsumer(**settings, auto_offset_reset="earliest")
        consumer.subscribe(pattern=f"^({re.escape(topic)}|__consumer_offsets)$")
        return consumer

    def reads(consumer: KafkaConsumer, *expected: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        found: set[str] = set()
        while not found.issuperset(expected):
            assert time.monotonic() < deadline
            found |= {partition.topic for partition in consumer.poll(200)}
        assert {each.topic for each in consumer.assignment()} == set(expected)
        consumer.close()

    reads(subscribe(excludes=True), topic)
    consumer = subscribe(excludes=False)
    with pytest.raises(TopicAuthorizationFailedError):
        reads(consumer, topic, "__consumer_offsets")
    consumer.close()
    allow(guarded, "read", "--topic", "__consumer_offsets")
    try:
        reads(subscribe(excludes=False), topic, "__consumer_offsets")
    finally:
        forbid(guarded, "read", "describe", "--topic", "__consumer_offsets")


def test_a_consumer_without_permissions_is_created_and_closed(guarded: GuardedBroker, topic: str) -> None:
    """testCreateAndCloseConsumerWithNoAccess"""
    KafkaConsumer(**guarded.kafka_python(group_id=topic)).close()
    Consumer(guarded.librdkafka(group_id=topic)).close()


def test_a_revoked_rule_stops_a_consumer_and_a_new_one_lets_it_go_on(
    request: pytest.FixtureRequest, guarded: GuardedBroker, topic: str
) -> None:
    allow(guarded, "read", "write", "--topic", topic)
    consumer = Consumer(guarded.librdkafka(group_id="unused", enable_auto_commit=False))
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert polled(consumer, lambda message: message.error() is None).value() == b"first"
    forbid(guarded, "read", "--topic", topic)
    assert delivered(guarded, topic) is None
    may_lag = is_apache_kafka(request)  # it applies a change of the rules a little later
    found = polled(consumer, lambda message: is_refused_for_topic(message) or not (message.error() or may_lag))
    assert is_refused_for_topic(found), "no record comes before"
    allow(guarded, "read", "--topic", topic)
    assert delivered(guarded, topic, value=b"last") is None
    assert polled(consumer, lambda message: message.error() is None and message.value() == b"last").offset() == 2
    consumer.close()


def test_a_topic_is_created_for_a_producer_that_may_create_it(guarded: GuardedBroker) -> None:
    """testCreatePermissionOnTopicToWriteToNonExistentTopic"""
    name = "to-be-created"
    allow(guarded, "write", "--topic", name)
    error = delivered(guarded, name)
    assert error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(guarded, "create", "--topic", "to-be-*")
    assert delivered(guarded, name) is None


def test_a_transaction_needs_its_id_the_topic_and_the_group(guarded: GuardedBroker, topic: str) -> None:
    """testTransactionalProducerInitTransactions…, …TopicAuthorizationExceptionInSendCallback, testSendOffsetsWith…"""

    def producer() -> Producer:
        return Producer(guarded.librdkafka(transactional_id=topic))

    with pytest.raises(KafkaException) as refused:
        producer().init_transactions(SECONDS_MAX)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allow(guarded, "write", "--transactional-id", topic)
    allow(guarded, "describe", "--topic", topic)
    without_topic = producer()
    without_topic.init_transactions(SECONDS_MAX)
    without_topic.begin_transaction()
    errors: list[KafkaError | None] = []
    without_topic.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    without_topic.flush(SECONDS_MAX)
    # librdkafka purges what it has not sent when the coordinator refuses the topic.
    refusals = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._PURGE_QUEUE)
    assert errors[0] is not None and errors[0].code() in refusals
    allow(guarded, "write", "read", "--topic", topic)
    complete = producer()
    complete.init_transactions(SECONDS_MAX)
    complete.begin_transaction()
    complete.produce(topic, b"committed")
    consumer = Consumer(guarded.librdkafka(group_id=topic))
    metadata = consumer.consumer_group_metadata()
    with pytest.raises(KafkaException) as of_group:
        complete.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], metadata, SECONDS_MAX)
    assert of_group.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()


def test_confluents_admin_client_manages_rules(guarded: GuardedBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": guarded.open_address})
    rule = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.PREFIXED,
        "User:bob",
        "10.0.0.0/8",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    (created,) = admin.create_acls([rule]).values()
    assert created.result(SECONDS_MAX) is None
    chosen = AclBindingFilter(
        ResourceType.TOPIC,
        f"{topic}-1",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert admin.describe_acls(chosen).result(SECONDS_MAX) == [rule]
    asked = ("acl", "test", "bob", "describe", "--topic", f"{topic}-1", "--host")
    assert guarded.asks(*asked, "10.1.2.3")[0] == 0
    status, answer = guarded.asks(*asked, "11.1.2.3")
    assert (status, answer.splitlines()[1]) == (1, "No, because no rule allows it.")
    (deleted,) = admin.delete_acls([chosen]).values()
    assert deleted.result(SECONDS_MAX) == [rule]
    refused = AdminClient(guarded.librdkafka())
    with pytest.raises(KafkaException) as error:
        refused.create_acls([rule])[rule].result(SECONDS_MAX)
    assert error.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_kafkas_own_tool_manages_rules(guarded: GuardedBroker, topic: str) -> None:
    where = ("--bootstrap-server", guarded.open_address)
    run_tool(
        "acls", *where, "--add", "--allow-principal", "User:carol", "--consumer", "--topic", topic, "--group", "g-"
    )
    listed = guarded.run("acl", "list", "--principal", "carol")
    assert {tuple(line.split()[2:5]) for line in listed.splitlines()[1:]} == {
        ("Read", "Topic", topic),
        ("Describe", "Topic", topic),
        ("Read", "Group", "g-"),
    }
    guarded.run("acl", "create", "carol", "write", "--topic", f"{topic}*", "--deny", "--host", "10.0.0.1")
    shown = run_tool("acls", *where, "--list", "--principal", "User:carol")
    assert "patternType=PREFIXED" in shown
    assert "(principal=User:carol, host=10.0.0.1, operation=WRITE, permissionType=DENY)" in shown


def test_a_command_names_the_settings_that_a_broker_hides(
    request: pytest.FixtureRequest, guarded: GuardedBroker
) -> None:
    status, answer = guarded.asks("acl", "test", "ANONYMOUS", "write", "--topic", "some-topic")
    if is_apache_kafka(request):
        assert (status, answer.splitlines()[1]) == (1, "No, because no rule allows it.")
        assert "do not tell super.users" in answer
    else:
        assert status == 0 and "super.users has the principal" in answer
