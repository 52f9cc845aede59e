"""What the controller makes of it, tests/server/handlers/ shows; here it is away."""

import pytest
import trio
from abandoned_spus import client_of_abandoned_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic


async def test_without_a_controller_each_topic_times_out_in_the_clients_time(autojump_clock: object) -> None:
    async with client_of_abandoned_spu() as client:
        topics = [CreatePartitionsTopic(name=name, count=4, assignments=None) for name in ("t", "u")]
        started = trio.current_time()
        response = await client.request(
            ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=topics, timeout_ms=7000)
        )
        assert trio.current_time() - started == pytest.approx(7)
    assert [(result.name, result.error_code) for result in response.results] == [
        ("t", ErrorCode.REQUEST_TIMED_OUT),
        ("u", ErrorCode.REQUEST_TIMED_OUT),
    ]
