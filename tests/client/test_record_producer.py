"""Sends records to real SPUs in memory while leaders change, and to scripted brokers that fail in a certain way."""

import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from clusters import ClusterOfSpus, address_of, cluster_of
from grouped_spu import grouped_spu
from scripted_brokers import ScriptedBroker, ScriptedBrokers, scripted_brokers
from spus import ADDRESS, SteadyClock

from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition, fetched_batches
from tailrace.client.outgoing_records import RecordRefusedError
from tailrace.client.partition_chooser import partition_of_key
from tailrace.client.record_producer import BYTES_MAX, RecordProducer
from tailrace.client.server_connection import RefusedError, UnreachableError, answered
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, read_records
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address, Network
from tailrace.trigger.work import Output

GUIDE = 9
"""An SPU that leads nothing and stays."""
LOST_ONE_IN = 20
"""How often a response is lost."""


@asynccontextmanager
async def _producing(
    network: Network, bootstrap: Sequence[Address], bytes_max: int = BYTES_MAX, patience_seconds: float = 60.0
) -> AsyncIterator[tuple[RecordProducer, LogClient]]:
    """Yields a producer, and a client that reads what was written."""
    spus = SpuClient(network, bootstrap, BOOTSTRAP)
    producer = RecordProducer(
        spus, SteadyClock(), RandomChance(1), bytes_max=bytes_max, patience_seconds=patience_seconds
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(producer.run)
        yield producer, LogClient(spus)
        nursery.cancel_scope.cancel()
    spus.close()


def _outputs(*values: bytes, topic: str = "orders", **more: Any) -> list[Output]:
    return [Output(topic, more.get("key"), value, partition=more.get("partition")) for value in values]


async def _stored(client: LogClient, topic: str) -> dict[int, list[Record]]:
    """Returns the records of each partition."""
    partitions = await client.partitions([topic])
    stored: dict[int, list[Record]] = {each.number: [] for each in answered(partitions)[topic]}
    ends = answered(await client.ends([Partition(topic, number) for number in stored]))
    for partition, log in ends.items():
        offset = log.start
        while offset < log.end:
            (fetched,) = answered(await client.fetch({partition: offset})).values()
            for offset, records in fetched_batches(fetched.records):  # noqa: B007
                stored[partition.number] += records
    return stored


async def test_records_of_many_topics_are_stored_where_they_belong(autojump_clock: object) -> None:
    async with grouped_spu() as spu, _producing(spu.network, [ADDRESS]) as (producer, client):
        await spu.running.create("orders", 5)
        await spu.running.create("bills", 2)
        keyed = [Output("orders", b"key-%d" % number, b"%d" % number) for number in range(40)]
        placed = Output("bills", None, None, (("name", b"content"), ("none", None)), partition=1, timestamp_ms=123)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.send, keyed)
            nursery.start_soon(producer.send, [placed, *_outputs(b"a", b"b", topic="bills")])
        assert producer.waiting_bytes == 0
        stored = await _stored(client, "orders")
        for number, records in stored.items():
            expected = [each for each in keyed if partition_of_key(each.key or b"", 5) == number]
            assert [(each.key, each.value) for each in records] == [(each.key, each.value) for each in expected]
            assert {each.timestamp for each in records} <= {SteadyClock().now_ms()}
        bills = await _stored(client, "bills")
        record = bills[1][0]
        assert (record.key, record.value, record.timestamp) == (None, None, 123)
        assert record.headers == [("name", b"content"), ("none", None)]
        without_key = {number: [each.value for each in records if each.value] for number, records in bills.items()}
        assert sorted(without_key.values()) == [[], [b"a", b"b"]], "records that are sent together stay together"


class _LossyConnection:
    """A connection that breaks now and then instead of giving a response, which was sent."""

    def __init__(self, connection: Any, chance: RandomChance) -> None:
        self._connection = connection
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def receive_into(self, buffer: memoryview) -> int | None:
        count: int | None = self._connection.receive_into(buffer)
        if count and not self._chance.below(LOST_ONE_IN):
            self._connection.close()
            raise ConnectionResetError(errno.ECONNRESET, "a test has lost the response")
        return count


class _LossyNetwork:
    def __init__(self, network: Any) -> None:
        self._network = network
        self._chance = RandomChance(7)

    async def connect(self, address: Address) -> Any:
        return _LossyConnection(await self._network.connect(address), self._chance)


async def test_nothing_is_lost_repeated_or_reordered_while_leaders_change(autojump_clock: object) -> None:
    async with cluster_of(1, 2, 3, GUIDE) as cluster:
        assert await cluster.create(GUIDE, "orders", 6, 3, min_insync_replicas="2") == ErrorCode.NONE
        network: Any = _LossyNetwork(cluster.world.network)
        async with _producing(network, [address_of(GUIDE)]) as (producer, _):
            sent: dict[bytes, list[bytes]] = {}

            async def produce(key: bytes, count: int) -> None:
                for number in range(count):
                    value = b"%b-%d" % (key, number)
                    await producer.send([Output("orders", key, value)])
                    sent.setdefault(key, []).append(value)
                    await trio.sleep(0.1)

            async with trio.open_nursery() as nursery:
                for number in range(8):
                    nursery.start_soon(produce, b"key-%d" % number, 150)
                for spu in (1, 2, 3, 1):
                    await trio.sleep(1)
                    await _replace(cluster, spu)
        async with _producing(cluster.world.network, [address_of(GUIDE)]) as (_, client):
            stored = await _stored(client, "orders")
        by_key: dict[bytes, list[bytes]] = {}
        for records in stored.values():
            for each in records:
                by_key.setdefault(each.key or b"", []).append(each.value or b"")
        assert by_key == sent
        epochs = [epoch for _, epoch in (await cluster.leaders(GUIDE, "orders")).values()]
        assert max(epochs) >= 2, "leaders changed"


async def _replace(cluster: ClusterOfSpus, spu: int) -> None:
    """Kills an SPU, and starts it again after others have taken over."""
    await cluster.kill_spu(spu)
    await trio.sleep(4)
    await cluster.start_spu(spu)


async def test_a_record_that_is_too_large_is_refused_alone(autojump_clock: object) -> None:
    async with grouped_spu() as spu, _producing(spu.network, [ADDRESS]) as (producer, client):
        await spu.running.create("orders", 1)
        others = [[b"%d" % number] for number in range(4)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.send, _outputs(*others[0]))
            await trio.testing.wait_all_tasks_blocked()
            for values in others[1:]:
                nursery.start_soon(producer.send, _outputs(*values))
            with pytest.raises(RecordRefusedError, match=r"^orders/0: .* max.message.bytes") as caught:
                await producer.send(_outputs(b"before", b"x" * 2_000_000, b"after"))
        assert (caught.value.number, caught.value.code) == (1, ErrorCode.MESSAGE_TOO_LARGE)
        values = [each.value for each in (await _stored(client, "orders"))[0]]
        assert sorted(values, key=str) == sorted([b"0", b"1", b"2", b"3", b"before", b"after"], key=str)
        await producer.send(_outputs(b"last"))


async def test_a_topic_may_be_new_but_not_unknown(autojump_clock: object) -> None:
    async with grouped_spu() as spu, _producing(spu.network, [ADDRESS]) as (producer, client):
        with pytest.raises(RecordRefusedError, match=r"^there is no topic nope; create it with `tailrace topic create"):
            await producer.send([Output("nope", None, b"v")])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.send, _outputs(b"v"))
            await trio.sleep(0.5)
            await spu.running.create("orders", 2)
        assert sum(map(len, (await _stored(client, "orders")).values())) == 1
        with pytest.raises(RefusedError, match=r"^there is no partition orders/2$") as caught:
            await producer.send([*_outputs(b"first", partition=1), *_outputs(b"v", partition=2)])
        assert isinstance(caught.value, RecordRefusedError)
        assert caught.value.number == 1


async def test_an_unknown_topic_holds_up_no_other(autojump_clock: object) -> None:
    async with (
        grouped_spu() as spu,
        _producing(spu.network, [ADDRESS]) as (producer, _),
        trio.open_nursery() as nursery,
    ):
        await spu.running.create("orders", 1)
        await producer.send(_outputs(b"a"))

        async def send_to_nowhere() -> None:
            with pytest.raises(RecordRefusedError, match="no topic nope"):
                await producer.send(_outputs(b"v", topic="nope"))

        nursery.start_soon(send_to_nowhere)
        await trio.sleep(0.5)
        with trio.fail_after(0.5):
            await producer.send(_outputs(b"b"))


async def test_partitions_that_were_added_are_found_and_deleted_topics_are_not(autojump_clock: object) -> None:
    async with grouped_spu() as spu, _producing(spu.network, [ADDRESS]) as (producer, client):
        topic = await spu.running.create("orders", 1)
        await producer.send(_outputs(b"a"))
        request = CreatePartitionsRequest([CreatePartitionsTopic("orders", 3, None)], 5_000)
        response = await (await spu.running.client()).request(ApiKey.CREATE_PARTITIONS, 3, request)
        assert not response.results[0].error_code, response
        await producer.send(_outputs(b"b", partition=2))
        assert [len(each) for each in (await _stored(client, "orders")).values()] == [1, 0, 1]
        await spu.running.delete(topic)
        with pytest.raises(RefusedError, match=r"^there is no topic orders"):
            await producer.send(_outputs(b"c", partition=0))


async def test_what_waits_is_bounded(autojump_clock: object) -> None:
    async with grouped_spu() as spu, _producing(spu.network, [ADDRESS], bytes_max=5_000) as (producer, client):
        await spu.running.create("orders", 3)
        largest = 0

        async def watch() -> None:
            nonlocal largest
            while True:
                largest = max(largest, producer.waiting_bytes)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            async with trio.open_nursery() as sending:
                for number in range(20):
                    sending.start_soon(producer.send, _outputs(*[b"%d" % number * 900] * 5, key=b"%d" % number))
                sending.start_soon(producer.send, _outputs(b"x" * 6_000))
            nursery.cancel_scope.cancel()
        assert 4_000 < largest <= 6_100, "a single record may be larger than the bound"
        assert sum(map(len, (await _stored(client, "orders")).values())) == 101


# scripted brokers


class _Answers:
    """Responds to Produce as told, and keeps the batches."""

    def __init__(self, *codes: int | None) -> None:
        self.codes = list(codes)
        """The error code of each response, or None for no response. After the last, every batch is appended."""
        self.batches: list[bytes] = []
        self.names = 0

    def __call__(self, broker: ScriptedBroker, request: Any) -> Any:
        if isinstance(request, InitProducerIdRequest):
            self.names += 1
            return InitProducerIdResponse(producer_id=100 + self.names, producer_epoch=0)
        code = self.codes.pop(0) if self.codes else 0
        topics = []
        for topic in request.topic_data:
            self.batches += [bytes(each.records) for each in topic.partition_data]
            partitions = [PartitionProduceResponse(each.index, code or 0, 0) for each in topic.partition_data]
            topics.append(TopicProduceResponse(topic.name, partition_responses=partitions))
        return None if code is None else ProduceResponse(topics)

    @property
    def seen(self) -> list[tuple[int, int, list[bytes | None]]]:
        """Returns producer id, first sequence number and values of each batch."""
        headers = [(read_header(each), [one.value for one in read_records(each)]) for each in self.batches]
        return [(header.producer_id, header.base_sequence, values) for header, values in headers]


@asynccontextmanager
async def _scripted(
    answers: _Answers, *leaders: int, patience_seconds: float = 60.0
) -> AsyncIterator[tuple[RecordProducer, ScriptedBrokers]]:
    async with scripted_brokers(answers, 1, 2) as cluster:
        cluster.leaders["orders"] = list(leaders)
        async with _producing(cluster.network, cluster.bootstrap, patience_seconds=patience_seconds) as (producer, _):
            yield producer, cluster


@pytest.mark.parametrize(
    "code",
    [None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR],
)
async def test_a_batch_without_an_acknowledgement_is_sent_again_unchanged(
    autojump_clock: object, code: int | None
) -> None:
    answers = _Answers(0, code, code)
    async with _scripted(answers, 1) as (producer, _):
        await producer.send(_outputs(b"a"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.send, _outputs(b"b"))
            await trio.sleep(0.01)
            nursery.start_soon(producer.send, _outputs(b"c"))
        assert answers.seen == [(101, 0, [b"a"]), *[(101, 1, [b"b"])] * 3, (101, 2, [b"c"])]
        assert len(set(answers.batches[1:4])) == 1


async def test_what_the_leader_has_stored_already_is_acknowledged(autojump_clock: object) -> None:
    async with _scripted(_Answers(None, ErrorCode.DUPLICATE_SEQUENCE_NUMBER), 1) as (producer, _):
        await producer.send(_outputs(b"a"))


async def test_what_arrives_while_a_request_is_under_way_shares_a_batch(autojump_clock: object) -> None:
    answers = _Answers(None)
    async with _scripted(answers, 1) as (producer, _), trio.open_nursery() as nursery:
        for value in (b"a", b"b", b"c", b"d"):
            nursery.start_soon(producer.send, _outputs(value, partition=0))
            await trio.sleep(0.01)
    assert [values for _, _, values in answers.seen] == [[b"a"], [b"a"], [b"b", b"c", b"d"]]


async def test_a_leader_that_forgot_the_producer_gets_a_new_one(autojump_clock: object) -> None:
    answers = _Answers(0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    async with _scripted(answers, 1) as (producer, _):
        await producer.send(_outputs(b"a"))
        await producer.send(_outputs(b"b"))
        assert answers.seen == [(101, 0, [b"a"]), (101, 1, [b"b"]), (102, 0, [b"b"])]


async def test_patience_ends_and_the_next_record_begins_anew(autojump_clock: object) -> None:
    answers = _Answers(0, *[ErrorCode.NOT_LEADER_OR_FOLLOWER] * 20)
    async with _scripted(answers, 1, patience_seconds=3) as (producer, _):
        await producer.send(_outputs(b"a"))
        began = trio.current_time()
        with pytest.raises(UnreachableError, match="orders/0: the leader cannot be found"):
            await producer.send(_outputs(b"b", b"c"))
        assert 3 <= trio.current_time() - began < 6
        assert producer.waiting_bytes == 0
        answers.codes = []
        await producer.send(_outputs(b"d"))
        assert answers.seen[-1] == (102, 0, [b"d"]), "the leader may have stored what was given up"


async def test_a_cluster_that_is_not_there(autojump_clock: object) -> None:
    async with _scripted(_Answers(), 1, patience_seconds=3) as (producer, cluster):
        for broker in cluster.brokers.values():
            broker.stop()
        with pytest.raises(UnreachableError):
            await producer.send(_outputs(b"a"))


async def test_a_partition_without_a_leader_delays_no_other(autojump_clock: object) -> None:
    answers = _Answers()
    async with _scripted(answers, 1, -1, 2) as (producer, cluster), trio.open_nursery() as nursery:
        nursery.start_soon(producer.send, _outputs(b"stuck", partition=1))
        await trio.sleep(1)
        began = trio.current_time()
        await producer.send([*_outputs(b"a", partition=0), *_outputs(b"b", partition=2)])
        assert trio.current_time() - began < 0.01
        cluster.leaders["orders"][1] = 2
    assert sorted(values[0] or b"" for _, _, values in answers.seen) == [b"a", b"b", b"stuck"]


async def test_a_frozen_leader_delays_only_its_own_partitions(autojump_clock: object) -> None:
    async with _scripted(_Answers(), 1, 2) as (producer, cluster):
        await producer.send([*_outputs(b"a", partition=0), *_outputs(b"b", partition=1)])
        cluster.brokers[2].is_frozen = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.send, _outputs(b"stuck", partition=1))
            with trio.fail_after(1):
                await producer.send(_outputs(b"c", partition=0))
            cluster.leaders["orders"][1] = 1


async def test_a_cancelled_send_takes_back_what_is_not_under_way(autojump_clock: object) -> None:
    answers = _Answers(None)
    async with _scripted(answers, 1) as (producer, _), trio.open_nursery() as nursery:
        nursery.start_soon(producer.send, _outputs(b"a", partition=0))
        await trio.sleep(0.01)
        with trio.move_on_after(1):
            await producer.send(_outputs(b"never", partition=0))
        nursery.start_soon(producer.send, _outputs(b"b", partition=0))
    assert [values for _, _, values in answers.seen] == [[b"a"], [b"a"], [b"b"]]
    assert producer.waiting_bytes == 0
