"""`tailrace trigger dead-letters` with letters as share groups of Apache Kafka write them; also on Apache Kafka."""

import json

import pytest
from cluster import tailrace_output
from confluent_kafka import Consumer, Producer, TopicPartition
from waiting import wait_until

LETTERS = 4


@pytest.fixture
def letters(bootstrap, create_topic):
    """Creates a topic, and one with a dead letter for each of its records, and returns their names."""
    origin, dead = create_topic(2), create_topic(1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(LETTERS):
        about = {"topic": origin, "partition": "1", "offset": f"{number}", "group": "billing", "delivery.count": "5"}
        headers = {"own": "1", **{f"__dlq.errors.{name}": value for name, value in about.items()}}
        headers["__dlq.errors.message"] = "odd" if number % 2 else "even"
        producer.produce(dead, b"%d" % number, b"key", partition=0, headers=headers)
    assert producer.flush(30) == 0
    return origin, dead


@pytest.fixture
def dead_letters(bootstrap):
    """Returns a function that runs `tailrace trigger dead-letters` and returns its JSON output."""
    return lambda *words: json.loads(tailrace_output("trigger", "dead-letters", *words, "--bootstrap", bootstrap))


def stored(bootstrap, topic, count):
    """Reads the records of partition 1 with a stock client."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 1, 0)])
    found = []
    wait_until(lambda: found.extend(consumer.consume(count, 0.2)) or len(found) >= count, 30, f"{count} records")
    consumer.close()
    return found


def test_letters_of_a_share_group_are_listed_shown_and_replayed(bootstrap, letters, dead_letters):
    origin, dead = letters
    listed = dead_letters("list", dead, "--error", "odd")
    assert [(each["letter"], each["record"]["offset"], each["attempts"]) for each in listed] == [
        ("0/1", 1, 5),
        ("0/3", 3, 5),
    ]
    shown = dead_letters("show", dead, "0/1")
    assert (shown["value"], shown["message"], shown["record"]["topic"]) == ("1", "odd", origin)
    assert dead_letters("replay", dead, "--error", "odd") == [{"topic": origin, "letters": 2}]
    assert dead_letters("replay", dead) == [{"topic": origin, "letters": 2}]
    assert dead_letters("replay", dead) == []
    records = stored(bootstrap, origin, LETTERS)
    assert [(each.key(), each.value()) for each in records] == [(b"key", b"%d" % number) for number in (1, 3, 0, 2)]
    assert records[0].headers() == [("own", b"1"), ("__dlq.replayed", f"{dead}/0/1".encode())]
