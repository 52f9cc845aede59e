"""Transactional batches on a whole SPU, with a stand-in for the coordinators of their transactions."""

import pytest
import trio
from producing import ask, bounds, request
from spus import batch, running_spu
from structlog.testing import capture_logs
from transactional_producing import (
    PRODUCER,
    TV1,
    TV2,
    end_transaction,
    inside,
    transactional,
    with_coordinators,
)

from tailrace.broker.handlers.records.transactional_batches import refusal
from tailrace.broker.transactions.markers import verifications
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import TRANSACTIONAL, read_header
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.produce import ProduceRequest, ProduceResponse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("version", "verify_only"), [(3, True), (TV1, True), (TV2, False), (13, False)])
async def test_the_first_batch_of_a_transaction_waits_for_the_coordinator_and_the_others_do_not(
    autojump_clock: object, version: int, verify_only: bool, at_once: bool
) -> None:
    async with running_spu() as running:
        topic = await running.create("t")
        client, coordinators = await running.client(), with_coordinators(running)
        coordinators.answer_at_once = at_once
        for sequence in range(3):
            produce = transactional(inside(b"a", sequence))
            produce.topic_data[0].topic_id = topic.id
            (answer,) = await ask(client, produce, version)
            assert (answer.error_code, answer.base_offset) == (0, sequence)
        assert coordinators.asked == [("id", PRODUCER, 0, frozenset({T0}), verify_only)]
        found = running.replica("t").log.read(0, 1000, 3, at_least_one=True)
        assert found is not None
        assert read_header(found.read()).attributes & TRANSACTIONAL
        assert len(running.spu.verifications) == 0


@pytest.mark.parametrize("at_once", [False, True])
async def test_all_partitions_of_a_request_are_confirmed_by_one_question(autojump_clock: object, at_once: bool) -> None:
    async with running_spu() as running:
        await running.create("t", 3)
        client, coordinators = await running.client(), with_coordinators(running)
        coordinators.answer_at_once = at_once
        await ask(client, transactional(None, inside(b"a", 0)))
        coordinators.codes[TopicPartition("t", 2)] = ErrorCode.INVALID_TXN_STATE
        answers = await ask(client, transactional(inside(b"a", 0), inside(b"b", 1), inside(b"c", 0)))
        assert [each.error_code for each in answers] == [0, 0, ErrorCode.INVALID_TXN_STATE]
        assert [asked[3] for asked in coordinators.asked] == [
            frozenset({T1}),
            frozenset({T0, TopicPartition("t", 2)}),
        ]
        assert [bounds(running, partition)[1] for partition in range(3)] == [1, 2, 0]


async def test_requests_in_flight_stay_in_order_while_one_waits(autojump_clock: object) -> None:
    """The shared buffer of the connections is overwritten meanwhile."""
    async with running_spu() as running:
        await running.create("t")
        client, other, coordinators = await running.client(), await running.client(), with_coordinators(running)
        coordinators.may_answer = trio.Event()
        await client.send(
            b"".join(
                client.encode(ApiKey.PRODUCE, TV2, transactional(inside(value, sequence)))
                for sequence, value in enumerate([b"a" * 100, b"b" * 100, b"c" * 100])
            )
        )
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            (answer,) = await ask(other, request(batch(b"x" * 500)))
            assert answer.error_code == 0
        assert bounds(running) == (0, 3), "only the other client has written"
        coordinators.may_answer.set()
        offsets = []
        for _ in range(3):
            response: ProduceResponse = await client.response()
            offsets.append(response.responses[0].partition_responses[0].base_offset)
        assert offsets == [3, 4, 5]
        assert len(coordinators.asked) == 1
        found = running.replica("t").log.read(3, 10_000, 6, at_least_one=True)
        assert found is not None
        data = found.read()
        assert [data.count(value * 100) for value in (b"a", b"b", b"c")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, TV1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, TV2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TV2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, TV1, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, TV1 - 1, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, TV1, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, TV2, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, TV1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, TV2, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, TV2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, TV1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, TV2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, TV2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, TV2, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_a_refusal_is_an_error_that_the_client_knows(code: ErrorCode, version: int, expected: ErrorCode) -> None:
    error = refusal(code, version)
    assert error.code == expected
    assert error.message


@pytest.mark.parametrize("raised", [True, False])
async def test_a_refused_batch_is_not_stored_and_its_client_learns_why(autojump_clock: object, raised: bool) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        client, coordinators = await running.client(), with_coordinators(running)
        if raised:
            coordinators.error = KafkaError(ErrorCode.NOT_COORDINATOR, "it has moved")
        else:
            coordinators.codes[T0] = ErrorCode.NOT_COORDINATOR
        (refused,) = await ask(client, transactional(inside(b"a", 0)))
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert "NOT_COORDINATOR" in str(refused.error_message)
        (behind,) = await ask(client, transactional(inside(b"b", 1)))
        assert behind.error_code == ErrorCode.NOT_ENOUGH_REPLICAS, "it was sent behind the first one"
        assert bounds(running) == (0, 0)
        coordinators.codes.clear()
        coordinators.error = None
        for sequence in range(2):
            (answer,) = await ask(client, transactional(inside(b"a", sequence)))
            assert answer.error_code == 0


async def test_a_batch_behind_concurrent_transactions_is_no_gap(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client, coordinators = await running.client(), with_coordinators(running)
        coordinators.codes[T0] = ErrorCode.CONCURRENT_TRANSACTIONS
        await ask(client, transactional(inside(b"a", 0)))
        coordinators.codes.clear()
        (behind,) = await ask(client, transactional(inside(b"b", 1)))
        assert behind.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        for sequence in range(2):
            (answer,) = await ask(client, transactional(inside(b"a", sequence)))
            assert answer.error_code == 0


async def test_a_late_batch_of_an_ended_transaction_is_refused(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client, coordinators = await running.client(), with_coordinators(running)
        await ask(client, transactional(inside(b"a", 0)), TV1)
        assert await end_transaction(client, 0) == [0]
        coordinators.codes[T0] = ErrorCode.TRANSACTION_ABORTABLE
        (late,) = await ask(client, transactional(inside(b"late", 1)), TV1)
        assert late.error_code == ErrorCode.TRANSACTION_ABORTABLE
        (again,) = await ask(client, transactional(inside(b"a", 0)), TV1)
        assert (again.error_code, again.base_offset) == (0, 0), "a batch that is stored already gets its offset"
        assert len(coordinators.asked) == 2
        assert bounds(running) == (0, 2)


async def test_a_batch_of_an_epoch_that_is_over_is_refused_even_if_the_coordinator_confirms_it(
    autojump_clock: object,
) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        await ask(client, transactional(inside(b"a", 0)))
        assert await end_transaction(client, 1, transaction_version=2) == [0]
        for sequence in (0, 1):
            (late,) = await ask(client, transactional(inside(b"late", sequence)))
            assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert bounds(running) == (0, 2)


async def test_a_batch_of_a_newer_epoch_needs_the_coordinator_although_a_transaction_is_open(
    autojump_clock: object,
) -> None:
    async with running_spu() as running:
        await running.create("t")
        client, coordinators = await running.client(), with_coordinators(running)
        for epoch in (0, 1):
            await ask(client, transactional(inside(b"a", 0, epoch=epoch)))
        assert [(epoch, partitions) for _, _, epoch, partitions, _ in coordinators.asked] == [
            (0, frozenset({T0})),
            (1, frozenset({T0})),
        ]


@pytest.mark.parametrize(
    ("version", "marker_epoch", "code"),
    [(TV1, 0, ErrorCode.INVALID_TXN_STATE), (TV2, 0, 0), (TV2, 1, ErrorCode.INVALID_PRODUCER_EPOCH)],
)
async def test_a_marker_during_the_wait_makes_the_confirmation_void(
    autojump_clock: object, version: int, marker_epoch: int, code: int
) -> None:
    """With an epoch for each transaction, the marker of the one before may come during the wait."""
    async with running_spu() as running:
        await running.create("t")
        client, other, coordinators = await running.client(), await running.client(), with_coordinators(running)
        coordinators.may_answer = trio.Event()
        await client.send(client.encode(ApiKey.PRODUCE, version, transactional(inside(b"a", 0))))
        await trio.testing.wait_all_tasks_blocked()
        assert await end_transaction(other, marker_epoch) == [0]
        coordinators.may_answer.set()
        response: ProduceResponse = await client.response()
        assert response.responses[0].partition_responses[0].error_code == code
        assert bounds(running) == (0, 1 + (code == 0))
        assert len(running.spu.verifications) == 0


async def test_a_confirmation_does_not_count_under_another_leader(autojump_clock: object) -> None:
    """Another leader may have written the marker that ends the transaction."""
    async with running_spu() as running:
        topic = await running.create("t")
        client, coordinators = await running.client(), with_coordinators(running)
        coordinators.may_answer = trio.Event()
        await client.send(client.encode(ApiKey.PRODUCE, TV1, transactional(inside(b"a", 0))))
        await trio.testing.wait_all_tasks_blocked()
        await running.delete(topic)
        await running.create("t")
        coordinators.may_answer.set()
        response: ProduceResponse = await client.response()
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert bounds(running) == (0, 0)


async def test_a_partition_that_was_not_ready_when_the_coordinator_was_asked_is_retried(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        client, coordinators = await running.client(), with_coordinators(running)
        coordinators.may_answer = trio.Event()
        running.replica("t", 1).is_merging = True
        await client.send(client.encode(ApiKey.PRODUCE, TV2, transactional(inside(b"a", 0), inside(b"b", 0))))
        await trio.testing.wait_all_tasks_blocked()
        running.replica("t", 1).is_merging = False
        coordinators.may_answer.set()
        response: ProduceResponse = await client.response()
        codes = [each.error_code for each in response.responses[0].partition_responses]
        assert codes == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        *_, answer = await ask(client, transactional(None, inside(b"b", 0)), TV2)
        assert answer.error_code == ErrorCode.NONE


async def test_a_transaction_with_an_epoch_of_its_own_begins_at_sequence_0(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        await ask(client, request(batch(b"of another producer")))
        (gap,) = await ask(client, transactional(inside(b"a", 5)), TV2)
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        (older,) = await ask(client, transactional(inside(b"a", 5)), TV1)
        assert older.error_code == 0, "earlier batches of this epoch may have been deleted"


@pytest.mark.parametrize(
    ("produce", "code"),
    [
        (request(inside(b"a", 0)), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (transactional(batch(b"a", is_transactional=True)), ErrorCode.INVALID_RECORD),
        (
            transactional(batch(b"a", is_transactional=True, producer_id=7, producer_epoch=0)),
            ErrorCode.INVALID_RECORD,
        ),
        (transactional(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)), ErrorCode.NONE),
    ],
    ids=["no transactional id", "no producer", "no sequence", "not transactional"],
)
async def test_batches_that_belong_to_no_transaction(
    autojump_clock: object, produce: ProduceRequest, code: int
) -> None:
    async with running_spu() as running:
        await running.create("t")
        with_coordinators(running)
        (answer,) = await ask(await running.client(), produce)
        assert answer.error_code == code


async def test_a_request_has_one_producer(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        coordinators = with_coordinators(running)
        answers = await ask(await running.client(), transactional(inside(b"a", 0), inside(b"a", 0, producer=8)))
        assert {each.error_code for each in answers} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert coordinators.asked == []
        assert len(running.spu.verifications) == 0


async def test_a_batch_outside_of_the_open_transaction_is_refused(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t")
        client = await running.client()
        with_coordinators(running)
        await ask(client, transactional(inside(b"a", 0)))
        outside = batch(b"b", producer_id=PRODUCER, producer_epoch=0, base_sequence=1)
        for produce in (request(outside), transactional(outside)):
            (answer,) = await ask(client, produce)
            assert answer.error_code == ErrorCode.INVALID_TXN_STATE
        assert bounds(running) == (0, 1)


async def test_the_records_that_wait_are_bounded(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        monkeypatch.setattr(verifications, "HELD_BYTES_MAX", 1)
        clients, coordinators = [await running.client(), await running.client()], with_coordinators(running)
        coordinators.may_answer = trio.Event()
        await clients[0].send(clients[0].encode(ApiKey.PRODUCE, TV2, transactional(inside(b"a", 0))))
        await trio.testing.wait_all_tasks_blocked()
        (refused,) = await ask(clients[1], transactional(inside(b"a", 0, producer=8)))
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        coordinators.may_answer.set()
        response: ProduceResponse = await clients[0].response()
        assert response.responses[0].partition_responses[0].error_code == 0
        (answer,) = await ask(clients[1], transactional(inside(b"a", 0, producer=8)))
        assert answer.error_code == 0
        assert running.spu.verifications.held_bytes == 0


@pytest.mark.parametrize("version", [TV1, TV2])
async def test_a_refused_request_leaves_nothing_behind(autojump_clock: object, version: int) -> None:
    """It has batches of two producers, or names a partition twice."""
    async with running_spu() as running:
        await running.create("t", 2)
        client, _ = await running.client(), with_coordinators(running)
        answers = await ask(client, transactional(inside(b"a", 0), inside(b"a", 0, producer=8)), version)
        assert [each.error_code for each in answers] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
        assert len(running.spu.verifications) == 0
        twice = transactional(inside(b"a", 0))
        twice.topic_data *= 2
        await client.request(ApiKey.PRODUCE, version, twice)
        assert len(running.spu.verifications) == 0


async def test_a_batch_that_has_waited_is_synced_and_seen_like_any_other(autojump_clock: object) -> None:
    """It is appended outside of a turn of its connection, and nothing else happens on this SPU."""
    async with running_spu() as running:
        await running.create("t", configs={"flush.messages": "1"})
        client, coordinators = await running.client(), with_coordinators(running)
        coordinators.may_answer = trio.Event()
        await client.send(client.encode(ApiKey.PRODUCE, TV2, transactional(inside(b"a", 0))))
        await trio.testing.wait_all_tasks_blocked()
        coordinators.may_answer.set()
        response: ProduceResponse = await client.response()
        assert response.responses[0].partition_responses[0].error_code == 0
        assert running.replica("t").high_watermark == 1


@pytest.mark.parametrize(("version", "code"), [(TV1, 0), (TV2, ErrorCode.INVALID_PRODUCER_ID_MAPPING)])
async def test_partitions_of_older_clients_need_not_be_verified(
    autojump_clock: object, version: int, code: int
) -> None:
    async with running_spu(broker={"transaction.partition.verification.enable": "false"}) as running:
        await running.create("t")
        client = await running.client()
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=["id"])
        await client.request(ApiKey.FIND_COORDINATOR, 4, find)
        await trio.testing.wait_all_tasks_blocked()
        (answer,) = await ask(client, transactional(inside(b"a", 0)), version)
        assert answer.error_code == code


async def test_a_refused_producer_is_logged_with_its_client(autojump_clock: object) -> None:
    with capture_logs() as lines:
        async with running_spu() as running:
            topic = await running.create("t")
            client, coordinators = await running.client(), with_coordinators(running)
            coordinators.codes[T0] = ErrorCode.PRODUCER_FENCED
            for version in (TV1, TV2, 13):
                produce = transactional(inside(b"a", 0))
                produce.topic_data[0].topic_id = topic.id
                (answer,) = await ask(client, produce, version)
                assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    (line,) = [line for line in lines if line["event"] == "producer_refused"]
    named = {name: line[name] for name in ("client_id", "transactional_id", "producer_id", "partition")}
    assert named == {"client_id": "test", "transactional_id": "id", "producer_id": PRODUCER, "partition": "t-0"}
