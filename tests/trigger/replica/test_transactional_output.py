"""Tests the claims of a shard, and what becomes of refused output, with a whole SPU in memory."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from grouped_spu import GroupedSpu, grouped_spu
from msgspec import Struct
from spus import ADDRESS
from trigger_replicas import config

from tailrace.client.outgoing_records import Outgoing
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.client.transactions.transaction_errors import ProducerFencedError
from tailrace.client.transactions.transactional_producer import TIMEOUT_SECONDS, TransactionalProducer
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.config.trigger_config import Retry, SeekTo
from tailrace.trigger.replica.group_offsets import Claim, FencedError, GroupOffsets, Mark
from tailrace.trigger.replica.output_sender import OutputRefusedError
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.replica.side_topics import SideTopics
from tailrace.trigger.replica.transactional_output import (
    TIMEOUT_SECONDS_MAX,
    TransactionalOutput,
    timeout_seconds,
    transactional_id,
)
from tailrace.trigger.shards.line_effects import Sending
from tailrace.trigger.work import Output, Shard

SHARD = Shard("orders", 0)


class _Producer(TransactionalProducer):
    before: Callable[[], Awaitable[None]] | None = None
    refused: Callable[[], None] | None = None

    async def send(self, records: Iterable[Outgoing]) -> dict[int, RefusedError]:
        refused = await super().send(records)
        if refused and self.refused is not None:
            self.refused()
        return refused

    async def initialize(self) -> None:
        if self.before is not None:
            await self.before()
        await super().initialize()


class _World(Struct):
    spu: GroupedSpu
    spus: SpuClient
    refused: Callable[[], None] | None = None
    """Called when a record of an owner that is made later is refused."""

    def owner(self, name: str, before: Callable[[], Awaitable[None]] | None = None) -> TransactionalOutput:
        """Returns the output of a replica that wants the shard. Something may happen before it fences the owner."""
        chance, logger = RandomChance(1), structlog.get_logger()
        producer = _Producer(self.spus, transactional_id("billing", SHARD), self.spu.clock, chance)
        producer.before, producer.refused = before, self.refused
        offsets = GroupOffsets(self.spus.another(), "billing", name)
        topics = SideTopics(self.spus.another(), "orders", logger)
        return TransactionalOutput(SHARD, producer, offsets, topics, config(), ReplicaMetrics(), chance, logger)


@asynccontextmanager
async def _world() -> AsyncIterator[_World]:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 1)
        await spu.running.create("out", 1)
        await spu.produce("orders", 0, 7)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        yield _World(spu, spus)
        spus.close()


def _sending(*values: bytes) -> Sending:
    return Sending(1, tuple(Output("out", None, each) for each in values))


async def test_a_shard_begins_where_the_trigger_seeks_and_then_at_the_last_commit(autojump_clock: object) -> None:
    async with _world() as world:
        first = world.owner("a")
        claim = await first.claim(1, SeekTo.LATEST)
        assert (claim.offset, claim.was_committed) == (7, False)
        await first.commit(Mark(9, 1))
        claim = await world.owner("b").claim(2, SeekTo.EARLIEST)
        assert (claim.offset, claim.was_committed) == (9, True)


async def test_a_shard_that_seeks_the_latest_record_begins_at_the_first_open_transaction(
    autojump_clock: object,
) -> None:
    """Its records are committed after the claim, so they are new to the trigger, as they are to a consumer."""
    async with _world() as world:
        writer = TransactionalProducer(world.spus, "writer", world.spu.clock, RandomChance(1))
        await writer.initialize()
        await writer.send([Output("orders", None, b"new", partition=0)])
        assert (await world.owner("a").claim(1, SeekTo.LATEST)).offset == 7
        writer.close()


async def test_a_claim_aborts_what_the_earlier_owner_had_sent_and_fences_it(autojump_clock: object) -> None:
    async with _world() as world:
        before, after = world.owner("a"), world.owner("b")
        await before.claim(1, SeekTo.EARLIEST)
        await before.send(_sending(b"lost"))
        assert before.is_open
        assert (await after.claim(2, SeekTo.EARLIEST)).offset == 0
        with pytest.raises(ProducerFencedError):
            await before.commit(Mark(5, 1))
        assert not before.can_commit


async def test_a_claim_knows_what_the_earlier_owner_has_committed_until_it_was_fenced(autojump_clock: object) -> None:
    async with _world() as world:
        before = world.owner("a")
        await before.claim(1, SeekTo.EARLIEST)
        await before.send(_sending(b"kept"))
        after = world.owner("b", lambda: before.commit(Mark(5, 1)))
        assert (await after.claim(2, SeekTo.EARLIEST)).offset == 5


async def test_an_owner_that_was_replaced_learns_it_and_does_not_fence_its_successor(autojump_clock: object) -> None:
    async with _world() as world:
        before, after = world.owner("a"), world.owner("b")
        await before.claim(1, SeekTo.EARLIEST)
        await after.claim(2, SeekTo.EARLIEST)
        await after.send(_sending(b"kept"))
        with pytest.raises(FencedError) as fenced:
            await before.claim(1, SeekTo.EARLIEST)
        assert fenced.value.epoch == 2
        await after.commit(Mark(3, 2))


async def test_a_refused_output_aborts_the_transaction_until_the_next_claim(autojump_clock: object) -> None:
    async with _world() as world:
        output = world.owner("a")
        await output.claim(1, SeekTo.EARLIEST)
        with pytest.raises(OutputRefusedError):
            await output.send(_sending(b"small", b"x" * (1 << 21)))
        with pytest.raises(OutputRefusedError):
            await output.send(_sending(b"small"))
        assert (output.can_commit, output.is_open) == (False, False)
        await output.claim(1, SeekTo.EARLIEST)
        await output.send(_sending(b"small"))
        assert output.can_commit


async def test_a_sending_that_is_given_up_half_way_cannot_be_committed(autojump_clock: object) -> None:
    async with _world() as world:
        with trio.CancelScope() as given_up:
            world.refused = given_up.cancel  # the shard is given up in the pause before the next attempt
            output = world.owner("a")
            await output.claim(1, SeekTo.EARLIEST)
            await output.send(Sending(1, (Output("out", None, b"first"), Output("missing", None, b"second"))))
        assert given_up.cancelled_caught
        assert (output.is_open, output.can_commit) == (True, False), "its mark is before what is in the transaction"
        await output.claim(1, SeekTo.EARLIEST)
        await output.send(_sending(b"first"))
        assert output.can_commit


def test_shards_have_different_ids_whatever_their_names() -> None:
    ids = {transactional_id(*each) for each in [("a", Shard("b", 1)), ("a/b", Shard("c", 1)), ("a", Shard("b", 11))]}
    assert ids == {"tailrace-trigger/a/b/1", "tailrace-trigger/a/b/c/1", "tailrace-trigger/a/b/11"}


def test_a_transaction_waits_for_the_retries_of_a_list() -> None:
    assert timeout_seconds(config(retry=Retry(attempts=100))) == TIMEOUT_SECONDS
    lists = config(batch_size=5, event_timeout=20, retry=Retry(attempts=4, backoff=(1, 3)))
    assert timeout_seconds(lists) == TIMEOUT_SECONDS + (1 + 20) + (2 + 20) + (3 + 20)
    assert timeout_seconds(config(batch_size=5, retry=Retry(attempts=1))) == TIMEOUT_SECONDS
    assert timeout_seconds(config(batch_size=5, retry=Retry(attempts=10**6))) == TIMEOUT_SECONDS_MAX


async def test_an_owner_that_is_fenced_while_it_claims_moves_no_offset(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epochs may be equal, and Apache Kafka compares none."""
    async with _world() as world:
        first, second = world.owner("a"), world.owner("b")
        find_beginning = GroupOffsets.beginning
        is_first = iter([True])

        async def beginning(self: GroupOffsets, shard: Shard, seek_to: SeekTo) -> Claim:
            claim = await find_beginning(self, shard, seek_to)
            if next(is_first, False):
                await second.claim(1, SeekTo.EARLIEST)
                await second.commit(Mark(5, 1))
            return claim

        monkeypatch.setattr(GroupOffsets, "beginning", beginning)
        with pytest.raises(RefusedError, match="a newer producer has the transactional id"):
            await first.claim(1, SeekTo.EARLIEST)
        assert (await second.claim(1, SeekTo.EARLIEST)).offset == 5
