"""What remains when a broker ends, cleanly or not, and starts again on the same data."""

import itertools
import threading
from contextlib import ExitStack, closing

import pytest
from clients.librdkafka import produce, read
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from raw import FETCH, connect, fetch_body, request
from topics import topic_creator
from waiting import wait_until


@pytest.fixture
def create(broker, request):
    return topic_creator(broker.bootstrap, request.node.name)


def make_producer(broker, **settings):
    named = {name.replace("_", "."): value for name, value in settings.items()}
    # The pauses between attempts to reconnect are short, because these tests stop the broker and start it again.
    return Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "reconnect.backoff.max.ms": 200} | named)


def make_consumer(broker, topic, offset=OFFSET_BEGINNING):
    settings = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "reconnect.backoff.max.ms": 200} | settings)
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


def read_all(broker, topic):
    """Reads every record of the topic's only partition."""
    consumer = make_consumer(broker, topic)
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    records = read(consumer, high - low) if high > low else []
    consumer.close()
    return records


class RunningProducer:
    """A producer that sends numbers until it is told to stop, and knows which were acknowledged."""

    def __init__(self, broker, topic, **settings):
        self._producer = make_producer(broker, **settings)
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged = []
        self.failures = []
        self._thread.start()

    def _run(self):
        for number in itertools.count():
            if self._stopping.is_set():
                break
            self._producer.produce(self._topic, b"%d" % number, partition=0, on_delivery=self._on_delivery)
            self._producer.poll(0.001)

    def _on_delivery(self, error, message):
        if error is None:
            self.acknowledged.append((message.offset(), int(message.value())))
        else:
            self.failures.append(error)

    def wait_for_more(self, count=200):
        goal = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= goal, seconds=40, what=f"{count} more acknowledged records")

    def close(self):
        self._stopping.set()
        self._thread.join()

    def stop(self):
        """Stops the producer, and returns after the last acknowledgement."""
        self.close()
        assert self._producer.flush(40) == 0


@pytest.fixture
def start_producer(broker):
    """Yields a function that starts producers. They end with the test."""
    with ExitStack() as stack:
        yield lambda topic, **settings: stack.enter_context(closing(RunningProducer(broker, topic, **settings)))


def test_data_offsets_topics_and_configs_outlive_a_restart(broker, create):
    topic = create(partitions=1, retention_ms="12345678")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    cluster_id = admin.list_topics(timeout=10).cluster_id
    produce(make_producer(broker), topic, [b"%d" % number for number in range(1000)], partition=0)
    assert broker.stop() == 0
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert admin.list_topics(timeout=10).cluster_id == cluster_id
    resource = ConfigResource(ResourceType.TOPIC, topic)
    assert admin.describe_configs([resource])[resource].result(20)["retention.ms"].value == "12345678"
    records = read_all(broker, topic)
    assert [(record.offset(), int(record.value())) for record in records] == [(n, n) for n in range(1000)]
    (delivered,) = produce(make_producer(broker), topic, [b"next"], partition=0)
    assert delivered.offset() == 1000


def test_a_deleted_topic_stays_deleted_and_deleted_records_stay_deleted(broker, create):
    kept, deleted = create(), create()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    produce(make_producer(broker), kept, [b"%d" % number for number in range(10)], partition=0)
    for future in admin.delete_records([TopicPartition(kept, 0, 6)]).values():
        future.result(20)
    admin.delete_topics([deleted], operation_timeout=20)[deleted].result(20)
    assert broker.stop() == 0
    broker.start()
    topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics
    assert kept in topics and deleted not in topics
    assert [record.offset() for record in read_all(broker, kept)] == [6, 7, 8, 9]


@pytest.mark.parametrize("end", ["kill", "stop"])
@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_nothing_acknowledged_is_lost_when_the_broker_ends_under_a_running_producer(
    broker, create, start_producer, end, idempotent
):
    """A killed process loses nothing of the page cache, and an idempotent producer leaves no duplicate and no gap."""
    topic = create()
    producer = start_producer(topic, enable_idempotence=idempotent, acks="all")
    for _ in range(2):
        producer.wait_for_more()
        if end == "kill":
            broker.kill()
        else:
            assert broker.stop() == 0
        broker.start()
    producer.wait_for_more()
    producer.stop()
    assert producer.failures == []
    stored = [(record.offset(), int(record.value())) for record in read_all(broker, topic)]
    assert [offset for offset, _ in stored] == list(range(len(stored))), "there is a gap in the offsets"
    numbers = [number for _, number in stored]
    acknowledged = [number for _, number in producer.acknowledged]
    assert set(acknowledged) <= set(numbers), "acknowledged records are lost"
    if idempotent:
        assert numbers == list(range(len(numbers))), "records are duplicated or out of order"
        assert {pair for pair in producer.acknowledged if pair[0] is not None and pair[0] >= 0} <= set(stored)


def test_a_consumer_continues_where_it_was_when_the_broker_restarts(broker, create):
    topic = create()
    produce(make_producer(broker), topic, [b"before"], partition=0)
    consumer = make_consumer(broker, topic)
    assert read(consumer, 1)[0].value() == b"before"
    broker.kill()
    broker.start()
    produce(make_producer(broker), topic, [b"after"], partition=0)
    (record,) = read_ignoring_errors(consumer, 1)
    assert (record.offset(), record.value()) == (1, b"after")
    consumer.close()


def read_ignoring_errors(consumer, count):
    messages = []

    def enough():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            messages.append(message)
        return len(messages) >= count

    wait_until(enough, seconds=30, what=f"{count} records")
    return messages


def test_a_second_process_on_the_same_data_refuses_to_start_and_the_first_continues(broker, create):
    topic = create()
    status, words = broker.start_second_process()
    assert status not in (0, None)
    assert str(broker.data) in words, words
    assert "Traceback" not in words
    produce(make_producer(broker), topic, [b"still here"], partition=0)
    assert [record.value() for record in read_all(broker, topic)] == [b"still here"]


def test_a_clean_stop_does_not_wait_for_clients(broker, create):
    """A long poll of a minute, an idle connection and half a request do not delay the stop."""
    topic = create()
    body = fetch_body(topic, 0, 0, wait_ms=60_000, bytes_max=1 << 20)
    with connect(broker.bootstrap) as waiting, connect(broker.bootstrap), connect(broker.bootstrap) as half:
        waiting.send(request(FETCH, 4, body))
        half.send(b"\x00\x00")
        assert broker.stop() == 0


def test_many_partitions_are_found_again(broker, create):
    topic = create(partitions=100)
    producer = make_producer(broker)
    for partition in range(100):
        producer.produce(topic, b"%d" % partition, partition=partition)
    assert producer.flush(30) == 0
    broker.kill()
    broker.start()
    consumer = make_consumer(broker, topic)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(100)])
    records = read_ignoring_errors(consumer, 100)
    assert sorted((record.partition(), int(record.value())) for record in records) == [(n, n) for n in range(100)]
    consumer.close()
