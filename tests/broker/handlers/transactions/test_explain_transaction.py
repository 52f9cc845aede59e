"""ExplainTransaction, over the wire."""

from simulation.client import WireClient
from spus import ADDRESS, RunningSpu, running_spu
from transaction_clients import transacting

from tailrace.broker.spu_counters import KNOWN
from tailrace.cluster.coordinators import partition_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.explain_transaction import ExplainTransactionRequest, ExplainTransactionResponse
from tailrace.protocol.internal_apis import InternalApiKey


async def explained(running: RunningSpu, transactional_id: str) -> ExplainTransactionResponse:
    client = WireClient(await running.world.network.connect(ADDRESS), apis=KNOWN)
    request = ExplainTransactionRequest(transactional_id)
    response: ExplainTransactionResponse = await client.request(InternalApiKey.EXPLAIN_TRANSACTION, 0, request)
    return response


async def test_the_newest_client_of_a_transactional_id_is_named(autojump_clock: object) -> None:
    async with running_spu() as running:
        await transacting(running)
        response = await explained(running, "id")
        assert (response.error_code, response.client_id, response.host) == (0, "test", "/192.0.2.1")
        assert (response.partition, response.epoch) == (partition_of("id", 50), 0)
        assert response.now_ms == response.loaded_ms == running.world.clock.now_ms()


async def test_a_transactional_id_that_does_not_exist(autojump_clock: object) -> None:
    async with running_spu() as running:
        await transacting(running)
        response = await explained(running, "nobody")
        assert response.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert response.error_message == "there is no transactional id nobody"
