"""Leaders of partitions ask the coordinators of transactions, wherever these are."""

import pytest
import trio
import trio.testing
from clusters import ClusterOfSpus, cluster_of
from spus import running_spu
from transaction_clients import TransactionalProducer, find_coordinator, transacting

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.transactions.common.producer_id_needed import ProducerIdNeededError
from tailrace.broker.transactions.hosting.transaction_coordination import ADD_SECONDS_MAX
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import ProducerId

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def test_the_own_spu_is_asked_without_the_network(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        before = running.spu.metrics.server.accepted_connections
        add = running.spu.transactions.add_partitions
        assert await add("id", producer.producer_id, 0, frozenset({T0}), verify_only=False) == {T0: ErrorCode.NONE}
        verified = await add("id", producer.producer_id, 0, frozenset({T0, T1}), verify_only=True)
        assert verified[T0] == ErrorCode.NONE
        assert verified[T1] != ErrorCode.NONE
        assert running.spu.metrics.server.accepted_connections == before
        assert [each.partitions for each in (await producer.describe()).topics] == [[0]]


async def test_a_fenced_producer_is_refused_at_once(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        await TransactionalProducer(await running.client()).init()
        began = trio.current_time()
        with pytest.raises(KafkaError) as caught:
            await running.spu.transactions.add_partitions(
                "id", producer.producer_id, 0, frozenset({T0}), verify_only=False
            )
        assert caught.value.code == ErrorCode.PRODUCER_FENCED
        assert trio.current_time() == began


async def test_the_own_spu_responds_at_once_unless_the_transaction_before_has_to_end(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        ask = running.spu.transactions.ask_to_add
        added = ask("id", producer.producer_id, 0, frozenset({T0}), verify_only=False)
        assert (added.added, await added.wait()) == ({T0: ErrorCode.NONE},) * 2
        refused = ask("id", producer.producer_id, 1, frozenset({T0}), verify_only=True)
        assert refused.added is None
        with pytest.raises(KafkaError) as caught:
            await refused.wait()
        assert caught.value.code == ErrorCode.PRODUCER_FENCED
        kind, held = running.spu._transaction_kind, []
        kind._send = lambda *markers: held.append(markers)  # type: ignore[method-assign]
        assert (await producer.end(commit=True)).error_code == 0
        await trio.testing.wait_all_tasks_blocked()
        del kind._send
        early = ask("id", producer.producer_id, 0, frozenset({T0}), verify_only=False)
        assert early.added is None
        kind._send(*held[0])
        assert await early.wait() == {T0: ErrorCode.NONE}
        assert kind._counts.parked == 1, "the coordinator was asked once"


async def test_without_a_coordinator_the_question_is_given_up_after_a_while(autojump_clock: object) -> None:
    async with running_spu() as running:
        with pytest.raises(KafkaError) as caught:
            await running.spu.transactions.add_partitions("id", 7, 0, frozenset({T0}), verify_only=True)
        assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_coordinator_that_ends_without_a_response_does_not_hold_its_spu_up(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection completes its request, whatever is cancelled, so that the request itself must end."""
    async with running_spu() as running:
        transactions = running.spu.transactions
        monkeypatch.setattr(transactions, "add_at_coordinator", lambda *arguments: None)
        await transacting(running)
        with pytest.raises(KafkaError) as caught, trio.fail_after(ADD_SECONDS_MAX + 1):
            await transactions.add_partitions("id", 7, 0, frozenset({T0}), verify_only=True)
        assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


class _Rounds(trio.abc.Instrument):
    """Counts the rounds of the loop."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


class _Answers:
    """Takes the responses to many requests."""

    def __init__(self) -> None:
        self.responses: list[object] = []

    def respond(self, response: object) -> None:
        self.responses.append(response)

    def refuse(self, error: KafkaError) -> None:
        raise AssertionError("it is asked again with a producer id") from error


async def test_requests_that_need_a_producer_id_are_handled_one_in_a_round(autojump_clock: object) -> None:
    """Other clients are served in between."""

    def call(coordinator: object, waiter: Waiter, spare_id: ProducerId | None, moment: Moment) -> None:
        if spare_id is None:
            waiter.refuse(ProducerIdNeededError())
        else:
            waiter.respond(rounds.count)

    async with running_spu() as running:
        await transacting(running)
        rounds, answers = _Rounds(), _Answers()
        trio.lowlevel.add_instrument(rounds)
        for _ in range(5):
            running.spu.transactions.ask_with_id("id", answers, call, 0)
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(rounds)
        assert len(set(answers.responses)) == len(answers.responses) == 5


async def _coordinated(cluster: ClusterOfSpus) -> tuple[TransactionalProducer, int]:
    assert await cluster.create(1, "t", 2, 3) == 0
    node = await find_coordinator(await cluster.client_of(1), "id")
    await trio.sleep(1)
    producer = TransactionalProducer(await cluster.client_of(node))
    assert (await producer.init()).error_code == 0
    return producer, node


async def test_other_spus_are_asked_over_one_connection(autojump_clock: object) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        producer, node = await _coordinated(cluster)
        (other, *_) = (spu for spu in cluster.spus if spu != node)
        before = cluster.spus[node].spu.metrics.server.accepted_connections
        for partition in (T0, T1):
            added = await cluster.spus[other].spu.transactions.add_partitions(
                "id", producer.producer_id, 0, frozenset({partition}), verify_only=False
            )
            assert added == {partition: ErrorCode.NONE}
        assert cluster.spus[node].spu.metrics.server.accepted_connections == before + 1
        assert [each.partitions for each in (await producer.describe()).topics] == [[0, 1]]


async def test_the_question_waits_while_the_coordinator_moves(autojump_clock: object) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        producer, node = await _coordinated(cluster)
        (other, *_) = (spu for spu in cluster.spus if spu != node)
        await cluster.kill_spu(node)
        for _ in range(5):
            try:
                added = await cluster.spus[other].spu.transactions.add_partitions(
                    "id", producer.producer_id, 0, frozenset({T0}), verify_only=False
                )
                break
            except KafkaError as error:
                assert error.code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
        assert added == {T0: ErrorCode.NONE}
