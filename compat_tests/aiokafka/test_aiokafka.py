"""aiokafka has its own connection and fetcher, and uses older versions of the requests than other clients."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, ProducerFenced
from samples import COMPRESSIONS, SAMPLES, START_MS

SECONDS_MAX = 40


class Clients:
    """Makes clients of one broker, and closes them together."""

    def __init__(self, bootstrap: str, stack: AsyncExitStack) -> None:
        self._bootstrap = bootstrap
        self._stack = stack

    async def producer(self, **settings: Any) -> AIOKafkaProducer:
        return await self._stack.enter_async_context(AIOKafkaProducer(bootstrap_servers=self._bootstrap, **settings))

    async def consumer(self, topic: str, partitions: int = 1, **settings: Any) -> AIOKafkaConsumer:
        settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False} | settings
        made = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, **settings)
        consumer = await self._stack.enter_async_context(made)
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        return consumer

    async def admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        self._stack.push_async_callback(admin.close)
        return admin


@pytest.fixture
def run(bootstrap: str) -> Callable[[Callable[[Clients], Awaitable[None]]], None]:
    """Returns a function that runs `async def story(clients)` in a new event loop, with a deadline."""

    async def main(story: Callable[[Clients], Awaitable[None]]) -> None:
        async with asyncio.timeout(SECONDS_MAX), AsyncExitStack() as stack:
            await story(Clients(bootstrap, stack))

    return lambda story: asyncio.run(main(story))


async def read(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_unchanged_at_consecutive_offsets(topic, run, compression):
    async def story(clients):
        kind = None if compression == "none" else compression
        producer = await clients.producer(compression_type=kind, max_request_size=1 << 21)
        for sample in SAMPLES:
            await producer.send(
                topic, sample.value, sample.key, 0, timestamp_ms=sample.timestamp_ms, headers=sample.headers
            )
        await producer.flush()
        records = await read(await clients.consumer(topic), len(SAMPLES))
        assert [record.offset for record in records] == list(range(len(SAMPLES)))
        for record, sample in zip(records, SAMPLES, strict=True):
            assert (record.key, record.value, record.timestamp) == (sample.key, sample.value, sample.timestamp_ms)
            assert list(record.headers) == sample.headers

    run(story)


@pytest.mark.parametrize(("acks", "idempotent"), [("all", True), ("all", False), (1, False), (0, False)])
def test_every_kind_of_acknowledgement_stores_the_records(topic, run, acks, idempotent):
    async def story(clients):
        producer = await clients.producer(acks=acks, enable_idempotence=idempotent)
        for number in range(200):
            await producer.send(topic, b"%d" % number, partition=0)
        await producer.flush()
        records = await read(await clients.consumer(topic), 200)
        assert [int(record.value) for record in records] == list(range(200))

    run(story)


def test_offsets_and_times(topic, run):
    async def story(clients):
        producer = await clients.producer()
        for number in range(10):
            await producer.send_and_wait(topic, b"v", partition=0, timestamp_ms=START_MS + number * 1000)
        partition = TopicPartition(topic, 0)
        consumer = await clients.consumer(topic)
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 10}
        found = await consumer.offsets_for_times({partition: START_MS + 4500})
        assert (found[partition].offset, found[partition].timestamp) == (5, START_MS + 5000)
        assert (await consumer.offsets_for_times({partition: START_MS + 9001}))[partition] is None
        consumer.seek(partition, 7)
        assert [record.offset for record in await read(consumer, 3)] == [7, 8, 9]

    run(story)


def test_an_offset_past_the_end_is_out_of_range(topic, run):
    async def story(clients):
        consumer = await clients.consumer(topic, auto_offset_reset="none")
        consumer.seek(TopicPartition(topic, 0), 17)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.getone()

    run(story)


def test_a_waiting_consumer_is_woken_by_a_record(topic, run):
    async def story(clients):
        consumer = await clients.consumer(topic, fetch_max_wait_ms=25_000)
        producer = await clients.producer()
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.wait([waiting], timeout=0.5)
        assert not waiting.done()
        started = time.monotonic()
        await producer.send_and_wait(topic, b"wake up", partition=0)
        assert (await waiting).value == b"wake up"
        assert time.monotonic() - started < 15, "the record waited for the end of the long poll"

    run(story)


def test_many_partitions_through_small_fetches(create_topic, run):
    topic = create_topic(partitions=10)

    async def story(clients):
        producer = await clients.producer(linger_ms=5)
        for number in range(1000):
            await producer.send(topic, b"%d" % number + b"x" * 300, partition=number % 10)
        await producer.flush()
        consumer = await clients.consumer(topic, partitions=10, max_partition_fetch_bytes=1000, fetch_max_bytes=3000)
        records = await read(consumer, 1000)
        for partition in range(10):
            assert [record.offset for record in records if record.partition == partition] == list(range(100))

    run(story)


def test_too_large_a_message_is_refused(create_topic, run):
    topic = create_topic(max_message_bytes="1000")

    async def story(clients):
        producer = await clients.producer()
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, b"x" * 2000, partition=0)

    run(story)


def test_administration(create_topic, run):
    topic = create_topic()

    async def story(clients):
        admin = await clients.admin()
        assert topic in await admin.list_topics()
        (described,) = await admin.describe_topics([topic])
        assert (described["topic"], len(described["partitions"])) == (topic, 1)
        await admin.create_partitions({topic: NewPartitions(total_count=2)})
        cluster = await admin.describe_cluster()
        assert cluster["brokers"]
        await admin.delete_topics([topic])

    run(story)


def test_transactions_commit_and_abort_records_and_offsets(topic, run):
    group = f"{topic}-readers"

    async def story(clients):
        producer = await clients.producer(transactional_id=f"{topic}-id")
        place = TopicPartition(topic, 0)
        consumer = await clients.consumer(topic, isolation_level="read_committed", group_id=group)
        assert await consumer.position(place) == 0, "otherwise it might begin at an offset that the loop commits"
        for number in range(6):
            async with contextlib.AsyncExitStack() as stack:
                if number % 2:
                    stack.enter_context(pytest.raises(ZeroDivisionError))
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"%d" % number, partition=0)
                    await producer.send_offsets_to_transaction({place: number + 1}, group)
                    if number % 2:
                        raise ZeroDivisionError
        assert [record.value for record in await read(consumer, 3)] == [b"0", b"2", b"4"]
        assert await consumer.committed(place) == 5

    run(story)


def test_a_newer_producer_fences_the_older_one(topic, run):
    async def story(clients):
        older = await clients.producer(transactional_id=f"{topic}-id")
        await older.begin_transaction()
        await older.send_and_wait(topic, b"older", partition=0)
        newer = await clients.producer(transactional_id=f"{topic}-id")
        with pytest.raises(ProducerFenced):
            await older.commit_transaction()
        async with newer.transaction():
            await newer.send_and_wait(topic, b"newer", partition=0)
        consumer = await clients.consumer(topic, isolation_level="read_committed")
        assert [record.value for record in await read(consumer, 1)] == [b"newer"]

    run(story)
