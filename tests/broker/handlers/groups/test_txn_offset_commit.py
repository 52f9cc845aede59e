"""Offsets in transactions on a whole SPU: who confirms the transaction, what the log has, and what a restart finds."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import NamedTuple

import pytest
import trio
from asking_coordinators import find, replica_of
from message_samples import sample
from simulation.client import WireClient
from spus import RunningSpu, World, running_spu
from transactional_groups import txn_offset_commit
from transactional_producing import PRODUCER, Coordinators, end_transaction, with_coordinators
from trio.testing import wait_all_tasks_blocked

from tailrace.broker.coordination.last_records import LastRecords
from tailrace.broker.handlers.groups.txn_offset_commit import refusal
from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import TRANSACTIONAL, BatchHeader, iterate
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

FEW = {"offsets.topic.num.partitions": "3"}
TV1, TV2 = 4, 5
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


class Scene(NamedTuple):
    running: RunningSpu
    client: WireClient
    coordinators: Coordinators

    @property
    def replica(self) -> Replica:
        return replica_of(self.running.spu)

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(GROUPS_TOPIC, self.replica.partition)

    async def commit(self, offset: int = 5, version: int = TV2, **more: object) -> ErrorCode:
        request = txn_offset_commit("g", {("t", 0): offset}, PRODUCER, **more)  # type: ignore[arg-type]
        response = await self.client.request(ApiKey.TXN_OFFSET_COMMIT, version, request)
        (error,) = [each.error_code for topic in response.topics for each in topic.partitions]
        return ErrorCode(error)

    async def end(self, epoch: int = 0, *, is_commit: bool = True) -> None:
        codes = await end_transaction(
            self.client, epoch, is_commit=is_commit, topic=GROUPS_TOPIC, partitions=(self.replica.partition,)
        )
        assert codes == [0]

    async def fetch(self, *, require_stable: bool = False) -> tuple[int, int]:
        """Returns the offset and the error of the partition."""
        topic = OffsetFetchRequestTopics("t", partition_indexes=[0])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup("g", topics=[topic])], require_stable=require_stable
        )
        response = await self.client.request(ApiKey.OFFSET_FETCH, 8, request)
        (found,) = response.groups[0].topics[0].partitions
        return found.committed_offset, found.error_code

    def batches(self) -> list[BatchHeader]:
        log = self.replica.log
        found = log.read(log.log_start, 2**20, log.log_end, at_least_one=True)
        return [] if found is None else [header for _, header in iterate(found.read())]


@asynccontextmanager
async def scene(world: World | None = None, broker: Mapping[str, str] = FEW) -> AsyncIterator[Scene]:
    async with running_spu(world or World(), broker) as running:
        if "t" not in running.spu.cluster.topics:
            await running.create("t")
        await find(running)
        yield Scene(running, await running.client(), with_coordinators(running))


@pytest.mark.parametrize("version", range(6))
async def test_offsets_are_committed_in_each_version(autojump_clock: object, version: int) -> None:
    async with scene() as now:
        request = txn_offset_commit("g", {("t", 0): 5, ("t", 9): 6, ("nothing", 0): 7}, PRODUCER)
        response = await now.client.request(ApiKey.TXN_OFFSET_COMMIT, version, request)
        errors = [
            (topic.name, each.partition_index, each.error_code)
            for topic in response.topics
            for each in topic.partitions
        ]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == [("t", 0, 0), ("t", 9, unknown), ("nothing", 0, unknown)]
        assert await now.fetch() == (-1, 0)
        await now.end()
        assert await now.fetch() == (5, 0)


@pytest.mark.parametrize(("version", "adds"), [(0, False), (TV1, False), (TV2, True)])
async def test_the_first_commit_of_a_transaction_is_confirmed(autojump_clock: object, version: int, adds: bool) -> None:
    async with scene() as now:
        for offset in (5, 6):
            assert await now.commit(offset, version) == ErrorCode.NONE
        question = ("t", PRODUCER, 0, frozenset({now.partition}), not adds)
        assert now.coordinators.asked == [question], "the log shows that the transaction is open"
        await now.end()
        assert await now.commit(7, version) == ErrorCode.NONE
        assert now.coordinators.asked == [question, question]


async def test_the_batch_in_the_log_belongs_to_the_transaction(autojump_clock: object) -> None:
    async with scene() as now:
        await now.commit(epoch=3)
        (batch,) = now.batches()
        assert batch.attributes & TRANSACTIONAL
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (PRODUCER, 3, -1)
        assert now.replica.log.producers.open_transaction(PRODUCER) == 0
        await now.end(3)
        assert now.replica.log.producers.open_transaction(PRODUCER) is None


@pytest.mark.parametrize("is_commit", [True, False])
async def test_another_coordinator_finds_the_same_offsets(autojump_clock: object, is_commit: bool) -> None:
    world = World()
    async with scene(world) as now:
        await now.commit(5)
        await now.end()
        await now.commit(6)
    async with scene(world) as now:
        assert await now.fetch() == (5, 0)
        assert await now.fetch(require_stable=True) == (-1, UNSTABLE)
        assert await now.commit(7) == ErrorCode.NONE
        assert not now.coordinators.asked, "the transaction is still open"
        await now.end(is_commit=is_commit)
        expected = (7, 0) if is_commit else (5, 0)
        assert await now.fetch(require_stable=True) == expected
    async with scene(world) as now:
        assert await now.fetch(require_stable=True) == expected


async def test_a_marker_that_arrives_while_the_groups_are_loaded_is_not_missed(autojump_clock: object) -> None:
    async with scene() as now:
        await now.commit(5)
        groups = now.running.spu.groups
        (partition,) = [each for each in groups.partitions() if each.replica is now.replica]
        groups.restart(partition)
        (loading,) = [each for each in groups.partitions() if each.replica is now.replica]
        assert not loading.is_loaded
        await now.end()
        await wait_all_tasks_blocked()
        assert await now.fetch(require_stable=True) == (5, 0)


async def test_a_marker_between_the_reading_of_the_log_and_the_end_of_loading_is_applied(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene() as now:
        await now.commit(5)
        groups = now.running.spu.groups
        (partition,) = [each for each in groups.partitions() if each.replica is now.replica]

        async def read_then_wait(self: LastRecords) -> None:
            await original(self)
            await may_go_on.wait()

        original, may_go_on = LastRecords.read, trio.Event()
        monkeypatch.setattr(LastRecords, "read", read_then_wait)
        groups.restart(partition)
        await wait_all_tasks_blocked()
        await now.end()
        may_go_on.set()
        await wait_all_tasks_blocked()
        assert await now.fetch(require_stable=True) == (5, 0)


async def test_a_reader_of_stable_offsets_waits_for_the_marker(autojump_clock: object) -> None:
    async with scene() as now:
        await now.commit(5)
        reader = now._replace(client=await now.running.client())
        found: list[tuple[int, int]] = []

        async def read() -> None:
            found.append(await reader.fetch(require_stable=True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await wait_all_tasks_blocked(0.01)
            assert not found
            await now.end()
        assert found == [(5, 0)]


@pytest.mark.parametrize("version", [TV1, TV2])
async def test_an_older_epoch_of_the_producer_is_fenced(autojump_clock: object, version: int) -> None:
    async with scene() as now:
        await now.commit(5, epoch=1)
        assert await now.commit(6, version, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
        await now.end(2, is_commit=False)
        assert await now.commit(6, version, epoch=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await now.fetch(require_stable=True) == (-1, 0)


async def test_a_member_that_was_replaced_is_fenced_by_its_generation(autojump_clock: object) -> None:
    async with scene() as now:
        assert await now.commit(5, generation=3, member="zombie") == ErrorCode.ILLEGAL_GENERATION
        assert not now.batches()


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, TV1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, TV2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, TV1, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, TV1, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.NOT_COORDINATOR, TV2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, TV1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, TV2, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_refusals_are_in_terms_that_clients_know(code: ErrorCode, version: int, expected: ErrorCode) -> None:
    assert refusal(code, version).code == expected


@pytest.mark.parametrize(("version", "expected"), [(1, 15), (2, 14)])
async def test_what_the_coordinator_refuses_is_not_committed(
    autojump_clock: object, version: int, expected: int
) -> None:
    async with scene() as now:
        now.coordinators.codes[now.partition] = ErrorCode.INVALID_TXN_STATE
        assert await now.commit(5, version) == ErrorCode.INVALID_TXN_STATE
        now.coordinators.error = KafkaError(ErrorCode.NOT_COORDINATOR)
        assert await now.commit(5, version) == ErrorCode(expected)
        assert not now.batches()


async def test_a_confirmation_is_void_when_the_transaction_has_ended_meanwhile(autojump_clock: object) -> None:
    async with scene() as now:
        other = now._replace(client=await now.running.client())
        now.coordinators.may_answer = trio.Event()
        found: list[ErrorCode] = []

        async def commit() -> None:
            found.append(await now.commit(5, TV1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit)
            await wait_all_tasks_blocked(0.01)
            await other.end(is_commit=False)
            now.coordinators.may_answer.set()
        assert found == [ErrorCode.INVALID_TXN_STATE]
        assert now.replica.log.producers.open_transaction(PRODUCER) is None
        assert not len(now.running.spu.verifications)


async def test_another_spu_coordinates_the_group(autojump_clock: object) -> None:
    async with running_spu(World(), FEW) as running:
        now = Scene(running, await running.client(), with_coordinators(running))
        assert await now.commit() == ErrorCode.NOT_COORDINATOR
        assert not now.coordinators.asked


@pytest.mark.parametrize("version", range(6))
async def test_every_valid_request_gets_a_response(autojump_clock: object, version: int) -> None:
    random = Random(version)
    async with scene() as now:
        for _ in range(30):
            asked = sample(TxnOffsetCommitRequest, version, random)
            if asked.topics:
                asked.topics[0].name = "t"
            asked.generation_id = -1
            asked.group_id = random.choice(("g", asked.group_id))
            await now.client.request(ApiKey.TXN_OFFSET_COMMIT, version, asked)
