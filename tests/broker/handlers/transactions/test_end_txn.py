"""EndTxn on a whole SPU: markers follow the decision, and the next request waits for them."""

import pytest
import trio
from msgspec.structs import replace
from spus import running_spu
from transaction_clients import TransactionalProducer, ends_of, transacting

from tailrace.protocol.error_codes import ErrorCode


@pytest.mark.parametrize("commit", [True, False])
async def test_every_partition_of_the_transaction_gets_a_marker(autojump_clock: object, commit: bool) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        assert await producer.add("t", 0, 1) == [0, 0]
        assert await producer.produce("t", 0, b"a") == 0
        assert (await producer.end(commit=commit)).error_code == 0
        await trio.sleep(0.1)
        assert ends_of(running.replica("t", 0)) == ends_of(running.replica("t", 1)) == [commit]
        assert (await producer.describe()).transaction_state == ("CompleteCommit" if commit else "CompleteAbort")


async def test_the_next_transaction_begins_without_an_error(autojump_clock: object) -> None:
    """apache/kafka answers CONCURRENT_TRANSACTIONS until the markers are written."""
    async with running_spu() as running:
        producer = await transacting(running)
        for number in range(5):
            assert await producer.add("t", 0) == [0]
            assert await producer.produce("t", 0, b"a") == 0
            assert (await producer.end(commit=True)).error_code == 0
            assert len(ends_of(running.replica("t"))) <= number + 1
        await trio.sleep(0.1)
        assert ends_of(running.replica("t")) == [True] * 5


async def test_clients_of_kip_890_get_an_epoch_with_each_end(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        epochs = []
        for commit in (True, False, True):
            assert await producer.produce("t", 0, b"a", version=12) == 0
            assert (await producer.end(commit=commit, version=5)).error_code == 0
            epochs.append(producer.epoch)
        assert epochs == [1, 2, 3]
        await trio.sleep(0.1)
        assert ends_of(running.replica("t")) == [True, False, True]


async def test_a_new_producer_id_is_given_when_the_epochs_are_exhausted(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        before, producer.epoch = producer.producer_id, 0
        (entry,) = [each.ids["id"] for each in running.spu.transactions.coordinators() if each.ids]
        entry.transaction = replace(entry.transaction, epoch=32_766)
        producer.epoch = 32_766
        assert await producer.produce("t", 0, b"a", version=12) == 0
        assert (await producer.end(commit=True, version=5)).error_code == 0
        assert producer.producer_id != before
        assert producer.epoch == 0
        assert await producer.produce("t", 0, b"b", version=12) == 0
        assert (await producer.end(commit=True, version=5)).error_code == 0


async def test_an_end_on_an_older_connection_is_refused(autojump_clock: object) -> None:
    """A delayed EndTxn of the transaction before must not end this one."""
    async with running_spu() as running:
        producer = await transacting(running)
        await producer.add("t", 0)
        older, producer.client = producer.client, await running.client()
        assert await producer.add("t", 1) == [0]
        producer.client = older
        assert (await producer.end(commit=True)).error_code == ErrorCode.INVALID_TXN_STATE
        assert (await producer.describe()).transaction_state == "Ongoing"


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
async def test_a_fenced_producer_gets_an_error_that_it_knows(
    autojump_clock: object, version: int, code: ErrorCode
) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        await producer.add("t", 0)
        await TransactionalProducer(await running.client()).init()
        assert (await producer.end(commit=True, version=version)).error_code == code


async def test_an_unknown_transactional_id_is_refused(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        producer.transactional_id = "another"
        assert (await producer.end(commit=True)).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
