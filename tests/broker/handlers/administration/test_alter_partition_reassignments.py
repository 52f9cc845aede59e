"""What the controller makes of it, tests/server/handlers/ shows; here it is away."""

import pytest
import trio
from abandoned_spus import client_of_abandoned_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest


async def test_without_a_controller_it_times_out_in_the_clients_time(autojump_clock: object) -> None:
    async with client_of_abandoned_spu() as client:
        started = trio.current_time()
        response = await client.request(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, AlterPartitionReassignmentsRequest(timeout_ms=7000)
        )
        assert trio.current_time() - started == pytest.approx(7)
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
