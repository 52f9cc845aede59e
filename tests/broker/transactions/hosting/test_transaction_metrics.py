"""The metrics of transactions, as an SPU with transactions shows them."""

import trio
from scrapes import sample, samples
from spus import running_spu
from transaction_clients import TransactionalProducer, transacting


async def test_transactions_are_counted_and_measured(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        await TransactionalProducer(producer.client, "second").init()
        for commit in (True, True, False):
            await producer.add("t", 0)
            await producer.end(commit=commit)
        await producer.add("t", 0)
        await producer.produce("t", 0, b"a", b"b")
        running.world.clock.time_ms += 5000
        await trio.sleep(0.1)
        found = samples((await running.scraped()).partition("\r\n\r\n")[2])
    assert found[sample("tailrace_transactions_committed_total")] == 2
    assert found[sample("tailrace_transactions_aborted_total")] == 1
    assert found[sample("tailrace_transaction_loads_total")] == 50
    assert found[sample("tailrace_transactional_ids")] == 2
    assert found[sample("tailrace_open_transactions")] == 1
    assert found[sample("tailrace_ending_transactions")] == 0
    assert found[sample("tailrace_oldest_transaction_seconds")] == 5
    assert found[sample("tailrace_stable_lag_records", topic="t", partition="0")] == 2
    assert found[sample("tailrace_waiting_transaction_markers")] == 0
