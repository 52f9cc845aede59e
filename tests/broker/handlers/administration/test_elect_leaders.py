"""What the controller makes of it, tests/server/handlers/ shows; here it is away."""

import pytest
import trio
from abandoned_spus import client_of_abandoned_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions


async def test_without_a_controller_each_partition_times_out_in_the_clients_time(autojump_clock: object) -> None:
    async with client_of_abandoned_spu() as client:
        named = [TopicPartitions("t", [0, 3]), TopicPartitions("u", [1])]
        started = trio.current_time()
        response = await client.request(
            ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=named, timeout_ms=7000)
        )
        assert trio.current_time() - started == pytest.approx(7)
        assert response.error_code == ErrorCode.REQUEST_TIMED_OUT
        everything = await client.request(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=None))
        assert (everything.error_code, everything.replica_election_results) == (ErrorCode.REQUEST_TIMED_OUT, [])
    assert [
        (result.topic, [(each.partition_id, each.error_code) for each in result.partition_result])
        for result in response.replica_election_results
    ] == [
        ("t", [(0, ErrorCode.REQUEST_TIMED_OUT), (3, ErrorCode.REQUEST_TIMED_OUT)]),
        ("u", [(1, ErrorCode.REQUEST_TIMED_OUT)]),
    ]
