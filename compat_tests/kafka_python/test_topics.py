"""kafka-python creates unknown topics only when it may."""

import uuid

from clients.kafka_python import read


def test_writing_to_an_unknown_topic_creates_it(make_producer, make_consumer):
    topic = f"auto-created-{uuid.uuid4().hex[:8]}"
    assert make_producer().send(topic, b"first").get(timeout=30).offset == 0
    assert [record.value for record in read(make_consumer(topic), 1)] == [b"first"]


def test_asking_for_an_unknown_topic_does_not_create_it_unless_the_client_allows(make_consumer, admin, topic):
    unknown = f"never-created-{uuid.uuid4().hex[:8]}"
    consumer = make_consumer(topic, allow_auto_create_topics=False)
    assert not consumer.partitions_for_topic(unknown)
    assert topic in consumer.topics()
    assert unknown not in admin.list_topics()
