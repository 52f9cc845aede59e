"""DescribeTransactions on a whole SPU."""

from spus import running_spu
from transaction_clients import transacting

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest


async def test_an_open_transaction_is_described(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        await producer.add("t", 1)
        described = await producer.describe()
        assert (described.error_code, described.transaction_state) == (0, "Ongoing")
        assert (described.producer_id, described.producer_epoch) == (producer.producer_id, producer.epoch)
        assert described.transaction_timeout_ms == 60_000
        assert described.transaction_start_time_ms == running.world.clock.now_ms()
        assert [(each.topic, each.partitions) for each in described.topics] == [("t", [1])]


async def test_ids_are_described_once_and_unknown_ones_get_an_error(autojump_clock: object) -> None:
    async with running_spu() as running:
        producer = await transacting(running)
        request = DescribeTransactionsRequest(["id", "unknown", "id"])
        response = await producer.client.request(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
        assert [(each.transactional_id, each.error_code) for each in response.transaction_states] == [
            ("id", 0),
            ("unknown", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ]
