"""Writes in transactions to a whole SPU in memory, and to scripted brokers that fail in a certain way."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from grouped_spu import grouped_spu
from scripted_brokers import ScriptedBroker, ScriptedBrokers, scripted_brokers
from spus import ADDRESS, SteadyClock
from trio.testing import MockClock

from tailrace.client.group_client import GroupClient
from tailrace.client.group_facts import Progress
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, answered
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transaction_states import ABORTED
from tailrace.client.transactions.transaction_errors import ProducerFencedError, TransactionLostError
from tailrace.client.transactions.transactional_producer import NEW_TOPIC_SECONDS_MAX, TransactionalProducer
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.work import Output

ORDERS, INVOICES = Partition("orders", 0), Partition("invoices", 0)
ID = "tailrace-trigger/billing/orders/0"


def _producer(spus: SpuClient) -> TransactionalProducer:
    return TransactionalProducer(spus, ID, SteadyClock(), RandomChance(1))


def _outputs(*values: bytes) -> list[Output]:
    return [Output("invoices", None, value) for value in values]


class _World:
    def __init__(self, spus: SpuClient) -> None:
        self.spus = spus
        self.producer = _producer(spus)
        self._logs = LogClient(spus)
        self._groups = GroupClient(spus)

    async def committed(self, partition: Partition = INVOICES) -> list[bytes | None]:
        """Returns what a reader with `read_committed` gets."""
        found = answered(await self._logs.fetch({partition: 0}, only_stable=True))[partition]
        assert found.transactions is not None
        return [
            record.value
            for each in found.batches
            if found.transactions.state_of(each.header, each.marker) != ABORTED
            for record in each.records
        ]

    async def offset(self) -> tuple[int | None, str]:
        found = (await self._groups.committed_in("billing", [ORDERS]))[ORDERS]
        if found is None:
            return None, ""
        assert isinstance(found, Progress)
        return found.committed, found.metadata


@asynccontextmanager
async def _world() -> AsyncIterator[_World]:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 1)
        await spu.running.create("invoices", 2)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        world = _World(spus)
        yield world
        world.producer.close()
        spus.close()


async def test_records_and_offsets_are_committed_together(autojump_clock: MockClock) -> None:
    async with _world() as world:
        await world.producer.initialize()
        for number in range(3):
            outputs = [Output("invoices", None, b"%d" % number, partition=0)]
            assert await world.producer.send(outputs) == {}
            assert world.producer.is_open
            assert await world.committed() == [b"%d" % each for each in range(number)]
            await world.producer.commit("billing", {ORDERS: number + 1}, {ORDERS: "trigger epoch=7 member=a"})
            assert not world.producer.is_open
            assert await world.committed() == [b"%d" % each for each in range(number + 1)]
            assert await world.offset() == (number + 1, "trigger epoch=7 member=a")


async def test_offsets_alone_are_committed_too(autojump_clock: MockClock) -> None:
    async with _world() as world:
        await world.producer.initialize()
        await world.producer.commit("billing", {ORDERS: 5})
        assert await world.offset() == (5, "")


async def test_the_next_producer_aborts_what_the_earlier_one_left_open_and_fences_it(autojump_clock: MockClock) -> None:
    async with _world() as world:
        before, after = world.producer, _producer(world.spus)
        await before.initialize()
        await before.send([Output("invoices", None, b"lost", partition=0)])
        await after.initialize()
        assert await world.committed() == [], "the transaction was aborted, so readers do not wait for it"
        with pytest.raises(ProducerFencedError):
            await before.commit("billing", {ORDERS: 9})
        assert before.is_lost
        with pytest.raises(TransactionLostError):
            await before.send(_outputs(b"more"))
        await after.send([Output("invoices", None, b"kept", partition=0)])
        await after.commit("billing", {ORDERS: 1})
        assert (await world.committed(), (await world.offset())[0]) == ([b"kept"], 1)
        await before.initialize()
        with pytest.raises(ProducerFencedError):
            await after.send([Output("invoices", None, b"late", partition=0)])
        await before.send([Output("invoices", None, b"again", partition=0)])
        await before.commit("billing", {ORDERS: 2})
        assert (await world.committed(), (await world.offset())[0]) == ([b"kept", b"again"], 2)
        after.close()


async def test_an_aborted_transaction_leaves_nothing(autojump_clock: MockClock) -> None:
    async with _world() as world:
        await world.producer.initialize()
        await world.producer.send([Output("invoices", None, b"lost", partition=0)])
        await world.producer.abort()
        assert (await world.committed(), world.producer.is_lost) == ([], True)


async def test_a_commit_with_an_old_epoch_of_the_shard_loses_the_transaction(autojump_clock: MockClock) -> None:
    async with _world() as world:
        await world.producer.initialize()
        await world.producer.commit("billing", {ORDERS: 4}, {ORDERS: "trigger epoch=7 member=a"})
        await world.producer.send([Output("invoices", None, b"lost", partition=0)])
        with pytest.raises(TransactionLostError):
            await world.producer.commit("billing", {ORDERS: 5}, {ORDERS: "trigger epoch=6 member=b"})
        await world.producer.initialize()
        assert (await world.committed(), (await world.offset())[0]) == ([], 4)


async def test_refused_records_are_named_and_the_others_are_in_the_transaction(autojump_clock: MockClock) -> None:
    async with _world() as world:
        await world.producer.initialize()
        outputs = [
            Output("invoices", None, b"first", partition=0),
            Output("nowhere", None, b"v"),
            Output("invoices", None, b"x" * (1 << 21), partition=0),
            Output("invoices", None, b"v", partition=7),
            Output("invoices", None, b"last", partition=0),
        ]
        refused = await world.producer.send(outputs)
        assert {number: each.code for number, each in refused.items()} == {
            1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            2: ErrorCode.MESSAGE_TOO_LARGE,
            3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        await world.producer.commit("billing", {})
        assert await world.committed() == [b"first", b"last"]


async def test_a_topic_that_does_not_exist_is_waited_for_once_and_not_for_each_record(
    autojump_clock: MockClock,
) -> None:
    async with _world() as world:
        await world.producer.initialize()
        began = trio.current_time()
        refused = await world.producer.send([Output("nowhere", None, b"v") for _ in range(100)])
        assert len(refused) == 100
        assert trio.current_time() < began + 2 * NEW_TOPIC_SECONDS_MAX


async def test_a_partition_that_was_added_is_found_at_the_next_attempt(autojump_clock: MockClock) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("invoices", 1)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        producer = _producer(spus)
        await producer.initialize()
        outputs = [Output("invoices", None, b"v", partition=1)]
        assert list(await producer.send(outputs)) == [0]
        request = CreatePartitionsRequest([CreatePartitionsTopic("invoices", 2, None)], 5000)
        response = await (await spu.running.client()).request(ApiKey.CREATE_PARTITIONS, 3, request)
        assert response.results[0].error_code == 0, response
        assert await producer.send(outputs) == {}
        producer.close()
        spus.close()


class _Script:
    """Brokers that answer as a test says, once for each code of an API; otherwise they succeed. -1 is silence."""

    def __init__(self, **codes: Sequence[int]) -> None:
        self.codes = {name: list(each) for name, each in codes.items()}
        self.sequences: list[tuple[int, int, bytes]] = []
        """The SPU, the sequence number and the bytes of each batch that has arrived."""

    def _code(self, name: str) -> int:
        codes = self.codes.get(name)
        return codes.pop(0) if codes else 0

    def __call__(self, broker: ScriptedBroker, request: Any) -> Any:
        match request.API_KEY:
            case ApiKey.INIT_PRODUCER_ID:
                return InitProducerIdResponse(error_code=self._code("initialize"), producer_id=9, producer_epoch=3)
            case ApiKey.ADD_PARTITIONS_TO_TXN:
                code = self._code("add")
                if code < 0:
                    return None
                results = [AddPartitionsToTxnPartitionResult(0, code)]
                topics = [AddPartitionsToTxnTopicResult("invoices", results)]
                return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
            case ApiKey.PRODUCE:
                records = request.topic_data[0].partition_data[0].records
                self.sequences.append((broker.id, read_header(records).base_sequence, bytes(records)))
                code = self._code("produce")
                if code < 0:
                    return None
                answers = [PartitionProduceResponse(0, code, 5)]
                return ProduceResponse([TopicProduceResponse("invoices", partition_responses=answers)])
            case ApiKey.ADD_OFFSETS_TO_TXN:
                code = self._code("add_offsets")
                return None if code < 0 else AddOffsetsToTxnResponse(error_code=code)
            case ApiKey.TXN_OFFSET_COMMIT:
                code = self._code("commit")
                if code < 0:
                    return None
                parts = [TxnOffsetCommitResponsePartition(0, code)]
                return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic("orders", parts)])
            case ApiKey.END_TXN:
                code = self._code("end")
                return None if code < 0 else EndTxnResponse(error_code=code)
        raise AssertionError(request)


@asynccontextmanager
async def _scripted(script: _Script) -> AsyncIterator[tuple[TransactionalProducer, ScriptedBrokers]]:
    async with scripted_brokers(script, 1, 2) as cluster:
        cluster.leaders["invoices"] = [1]
        producer = _producer(SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP))
        yield producer, cluster
        producer.close()


async def test_transient_errors_of_coordinators_and_leaders_are_waited_out(autojump_clock: MockClock) -> None:
    moved, loading, busy = (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
    script = _Script(
        initialize=[busy, moved],
        add=[busy, busy, loading],
        produce=[ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS],
        add_offsets=[moved],
        commit=[moved, loading],
        end=[busy, moved],
    )
    async with _scripted(script) as (producer, _):
        await producer.initialize()
        assert await producer.send(_outputs(b"v")) == {}
        await producer.commit("billing", {ORDERS: 1})
    assert not any(script.codes.values()), "every error was met"
    assert len({each for _, _, each in script.sequences}) == 1, "the batch stays the same"


async def test_a_batch_without_an_answer_goes_to_the_next_leader_unchanged(autojump_clock: MockClock) -> None:
    script = _Script(produce=[-1])
    async with _scripted(script) as (producer, cluster), trio.open_nursery() as nursery:
        await producer.initialize()
        nursery.start_soon(producer.send, _outputs(b"v"))
        while not script.sequences:  # noqa: ASYNC110 - the clock is virtual
            await trio.sleep(0.01)
        cluster.leaders["invoices"] = [2]
    (first, sequence, before), (second, again, after) = script.sequences
    assert (first, second, sequence, again, before == after) == (1, 2, 0, 0, True)


@pytest.mark.parametrize("step", ["add", "add_offsets", "commit", "end"])
async def test_after_a_request_without_a_response_the_next_transaction_has_a_new_epoch(
    step: str, autojump_clock: MockClock
) -> None:
    """The request may still arrive, and it must not become part of the next transaction."""
    epochs: list[tuple[str, int]] = []
    script = _Script(**{step: [-1]})

    def answered_once(broker: ScriptedBroker, request: Any) -> Any:
        match request:
            case InitProducerIdRequest():
                epochs.append(("initialize", request.producer_epoch))
                return InitProducerIdResponse(producer_id=9, producer_epoch=request.producer_epoch + 4)
            case EndTxnRequest():
                epochs.append(("end", request.producer_epoch))
        return script(broker, request)

    async with scripted_brokers(answered_once, 1, 2) as cluster:
        cluster.leaders["invoices"] = [1]
        producer = _producer(SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP))
        await producer.initialize()
        for number in range(3):
            await producer.send(_outputs(b"v"))
            await producer.commit("billing", {ORDERS: number + 1})
        producer.close()
    assert list(dict.fromkeys(epochs)) == [("initialize", -1), ("end", 3), ("initialize", 3), ("end", 7)]
    assert [sequence for _, sequence, _ in script.sequences] == [0, 0, 1], "a new epoch begins at 0"


async def test_a_producer_that_renews_its_epoch_fences_no_other_one(autojump_clock: MockClock) -> None:
    async with _world() as world:
        before, after = world.producer, _producer(world.spus)
        await before.initialize()
        before._may_be_late = True
        await before.commit("billing", {ORDERS: 1})
        await after.initialize()
        before._may_be_late = True
        with pytest.raises(ProducerFencedError):
            await before.commit("billing", {ORDERS: 2})
        await after.commit("billing", {ORDERS: 3})
        after.close()


async def test_leaders_and_coordinators_are_looked_up_once(autojump_clock: MockClock) -> None:
    asked: list[int] = []
    script = _Script()
    async with _scripted(script) as (producer, cluster):
        answer = cluster.answer
        cluster.brokers[1].script = lambda broker, request: (
            asked.append(request.API_KEY) or answer(script, broker, request)  # type: ignore[func-returns-value]
        )
        await producer.initialize()
        for number in range(5):
            await producer.send(_outputs(b"v"))
            await producer.commit("billing", {ORDERS: number + 1})
    assert asked.count(ApiKey.FIND_COORDINATOR) == 2
    assert asked.count(ApiKey.END_TXN) == 5
    assert asked.count(ApiKey.METADATA) <= 5
    assert [sequence for _, sequence, _ in script.sequences] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("step", ["add", "produce", "add_offsets", "commit", "end"])
async def test_a_fenced_producer_ends_at_any_step(step: str, autojump_clock: MockClock) -> None:
    async with _scripted(_Script(**{step: [ErrorCode.INVALID_PRODUCER_EPOCH]})) as (producer, _):
        await producer.initialize()
        with pytest.raises(ProducerFencedError):
            await producer.send(_outputs(b"v"))
            await producer.commit("billing", {ORDERS: 1})
        assert producer.is_lost


async def test_a_cancelled_step_loses_the_transaction(autojump_clock: MockClock) -> None:
    async with _scripted(_Script(produce=[-1])) as (producer, _):
        await producer.initialize()
        with trio.move_on_after(1):
            await producer.send(_outputs(b"v"))
        assert producer.is_lost


async def test_a_user_without_rights_gets_the_reason(autojump_clock: MockClock) -> None:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    async with _scripted(_Script(initialize=[code])) as (producer, _):
        with pytest.raises(RefusedError) as refused:
            await producer.initialize()
        assert refused.value.code == code
        await producer.initialize()
        assert not producer.is_lost
