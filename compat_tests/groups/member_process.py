"""One member of a consumer group, with any stock client, as a process that can be killed.

The first line of its input is JSON with its configuration. Further lines are orders: `rest` to stop polling, and `work`
to poll again. At the end of its input, the member leaves. It prints what happens as lines of JSON.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

POLL_SECONDS = 0.05
KAFKA_PYTHON_POLL_MS = 1000
"""The time limit of a poll, which records end at once.

A poll that ends while kafka-python rejoins for new metadata may forget the assignment.
"""
Record = tuple[str, int, int, str]
"""Topic, partition, offset and value."""


def say(event: str, **what: Any) -> None:
    """Prints an event; `at` is the time of a clock that all processes of the machine share."""
    print(json.dumps({"event": event, "at": time.monotonic()} | what), flush=True)


def places(partitions: Iterable[Any]) -> list[tuple[str, int]]:
    return sorted((each.topic, each.partition) for each in partitions)


def next_offsets(records: list[Record]) -> dict[tuple[str, int], int]:
    """Returns the offsets to commit after these records have been processed."""
    return {(topic, partition): offset + 1 for topic, partition, offset, _ in records}


class Orders:
    """Orders from the process that started this one."""

    def __init__(self) -> None:
        self.may_work = threading.Event()
        self.may_work.set()
        self.is_over = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "rest":
                self.may_work.clear()
            else:
                self.may_work.set()
        self.is_over = True
        self.may_work.set()


class KafkaPython:
    def __init__(self, role: dict[str, Any]) -> None:
        from clients.kafka_python import complete_joins, tolerate_unknown_brokers
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned):
                say("assigned", partitions=places(assigned))

            def on_partitions_revoked(self, revoked):
                say("revoked", partitions=places(revoked))

            def on_partitions_lost(self, lost):
                say("lost", partitions=places(lost))

        assignors = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
            "cooperative-sticky": CooperativeStickyAssignor,
        }
        self._consumer = KafkaConsumer(
            bootstrap_servers=role["bootstrap"].split(","),
            client_id=role["name"],
            group_id=role["group"],
            group_instance_id=role["instance"],
            partition_assignment_strategy=[assignors[role["assignor"]]],
            session_timeout_ms=role["session_ms"],
            heartbeat_interval_ms=role["heartbeat_ms"],
            max_poll_interval_ms=role["max_poll_ms"],
            max_poll_records=role["records_per_poll"],
            metadata_max_age_ms=role["metadata_ms"],
            auto_offset_reset="earliest",
            enable_auto_commit=role["commit"] == "auto",
            auto_commit_interval_ms=role["auto_commit_ms"],
            reconnect_backoff_max_ms=500,
        )
        tolerate_unknown_brokers(self._consumer)
        complete_joins(self._consumer)
        self._consumer.subscribe(role["topics"], role["pattern"], Listener())

    def poll(self) -> list[Record]:
        from kafka.errors import RetriableError, UnknownBrokerIdError

        try:
            polled = self._consumer.poll(timeout_ms=KAFKA_PYTHON_POLL_MS)
        except (RetriableError, UnknownBrokerIdError):  # a broker is offline
            return []
        return [
            (each.topic, each.partition, each.offset, each.value.decode()) for some in polled.values() for each in some
        ]

    def commit(self, offsets: dict[tuple[str, int], int]) -> None:
        from kafka import OffsetAndMetadata, TopicPartition

        self._consumer.commit(
            {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        )

    def leave(self) -> None:
        self._consumer.close()


class Librdkafka:
    def __init__(self, role: dict[str, Any]) -> None:
        from confluent_kafka import Consumer

        is_new = role["client"] == "confluent-consumer"
        protocol = {
            "group.protocol": "consumer",
            "group.remote.assignor": role["assignor"],
        }
        classic = {
            "partition.assignment.strategy": role["assignor"],
            "session.timeout.ms": role["session_ms"],
            "heartbeat.interval.ms": role["heartbeat_ms"],
        }
        instance = {"group.instance.id": role["instance"]} if role["instance"] else {}
        settings = {
            "bootstrap.servers": role["bootstrap"],
            "client.id": role["name"],
            "group.id": role["group"],
            "max.poll.interval.ms": role["max_poll_ms"],
            "topic.metadata.refresh.interval.ms": role["metadata_ms"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": role["commit"] == "auto",
            "auto.commit.interval.ms": role["auto_commit_ms"],
            "reconnect.backoff.max.ms": 200,
            "log_level": 2,
        }
        self._records_per_poll = role["records_per_poll"]
        self._consumer = Consumer(settings | instance | (protocol if is_new else classic))
        self._consumer.subscribe(
            [role["pattern"]] if role["pattern"] else role["topics"],
            on_assign=lambda _, partitions: say("assigned", partitions=places(partitions)),
            on_revoke=lambda _, partitions: say("revoked", partitions=places(partitions)),
            on_lost=lambda _, partitions: say("lost", partitions=places(partitions)),
        )

    def poll(self) -> list[Record]:
        records = []
        for each in self._consumer.consume(self._records_per_poll, POLL_SECONDS):
            if each.error():
                say("error", text=each.error().str())
            else:
                records.append((each.topic(), each.partition(), each.offset(), each.value().decode()))
        return records

    def commit(self, offsets: dict[tuple[str, int], int]) -> None:
        from confluent_kafka import TopicPartition

        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        for committed in self._consumer.commit(offsets=wanted, asynchronous=False):
            if committed.error:
                raise RuntimeError(committed.error.name())

    def leave(self) -> None:
        self._consumer.close()


def run(member: KafkaPython | Librdkafka, orders: Orders, commits: bool) -> None:
    try:
        while not orders.is_over:
            if not orders.may_work.is_set():
                say("resting")
                orders.may_work.wait()
            work(member, commits)
    finally:
        member.leave()


def work(member: KafkaPython | Librdkafka, commits: bool) -> None:
    records = member.poll()
    if records:
        say("records", records=records)
    if records and commits:
        offsets = next_offsets(records)
        try:
            member.commit(offsets)
        except Exception as error:
            say("commit failed", text=type(error).__name__ + ": " + str(error))
        else:
            say("committed", offsets=[[*place, offset] for place, offset in offsets.items()])


async def run_aiokafka(role: dict[str, Any], orders: Orders) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned):
            say("assigned", partitions=places(assigned))

        async def on_partitions_revoked(self, revoked):
            say("revoked", partitions=places(revoked))

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = AIOKafkaConsumer(
        bootstrap_servers=role["bootstrap"],
        client_id=role["name"],
        group_id=role["group"],
        group_instance_id=role["instance"],
        partition_assignment_strategy=[assignors[role["assignor"]]],
        session_timeout_ms=role["session_ms"],
        heartbeat_interval_ms=role["heartbeat_ms"],
        max_poll_interval_ms=role["max_poll_ms"],
        metadata_max_age_ms=role["metadata_ms"],
        auto_offset_reset="earliest",
        enable_auto_commit=role["commit"] == "auto",
        auto_commit_interval_ms=role["auto_commit_ms"],
    )
    consumer.subscribe(role["topics"], role["pattern"], Listener())
    async with consumer:
        while not orders.is_over:
            if not orders.may_work.is_set():
                say("resting")
                await asyncio.to_thread(orders.may_work.wait)
            polled = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=role["records_per_poll"])
            records = [
                (each.topic, each.partition, each.offset, each.value.decode())
                for some in polled.values()
                for each in some
            ]
            if records:
                say("records", records=records)
            if records and role["commit"] == "each":
                offsets = next_offsets(records)
                try:
                    await consumer.commit({TopicPartition(*place): offset for place, offset in offsets.items()})
                except Exception as error:
                    say("commit failed", text=type(error).__name__ + ": " + str(error))
                else:
                    say("committed", offsets=[[*place, offset] for place, offset in offsets.items()])


def main() -> None:
    role = json.loads(sys.stdin.readline())
    orders = Orders()
    try:
        if role["client"] == "aiokafka":
            asyncio.run(run_aiokafka(role, orders))
        else:
            member = KafkaPython(role) if role["client"] == "kafka-python" else Librdkafka(role)
            run(member, orders, commits=role["commit"] == "each")
    except Exception as error:
        say("error", text=type(error).__name__ + ": " + str(error))
    say("ended")


if __name__ == "__main__":
    main()
