"""Reads whole partitions with librdkafka, and finds the coordinators of transactional ids."""

from collections.abc import Iterable

from confluent_kafka import OFFSET_END, Consumer, TopicPartition
from node_cluster import Watcher
from waiting import wait_until

STATE_TOPIC = "__transaction_state"


def values(bootstrap: str, topic: str, partitions: Iterable[int], isolation: str = "read_committed") -> list[str]:
    """Returns the values that a reader of this isolation level gets, partition by partition, up to the end of each."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    found: dict[int, list[str]] = {partition: [] for partition in partitions}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        open_partitions = set(found)

        def are_at_the_end() -> bool:
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    found[message.partition()].append(message.value().decode())
                else:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    open_partitions.discard(message.partition())
            return not open_partitions

        wait_until(are_at_the_end, 30, f"the reader of {topic} is at the end")
    finally:
        consumer.close()
    return [value for partition in sorted(found) for value in found[partition]]


def stable_end(bootstrap: str, topic: str, partition: int) -> int:
    """Returns the end of the partition for readers of committed records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition, OFFSET_END), timeout=20)[1])
    finally:
        consumer.close()


def coordinator(watcher: Watcher, transactional_id: str) -> int:
    """Returns the node that coordinates the transactional id."""
    return watcher.leader(STATE_TOPIC, state_partition(transactional_id))


def state_partition(transactional_id: str) -> int:
    """Returns the partition of the state topic that has the transactional id, by Kafka's rule."""
    value = 0
    for character in transactional_id:
        value = (value * 31 + ord(character)) & 0xFFFF_FFFF
    value = value if value < 2**31 else value - 2**32
    return abs(value) % 50
