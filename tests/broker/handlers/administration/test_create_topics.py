"""What the controller makes of it, tests/server/handlers/ shows; here it is away."""

import pytest
import trio
from abandoned_spus import client_of_abandoned_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest


@pytest.mark.parametrize("version", [2, 7])
async def test_without_a_controller_each_topic_times_out_in_the_clients_time(
    autojump_clock: object, version: int
) -> None:
    async with client_of_abandoned_spu() as client:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a", "b")]
        started = trio.current_time()
        response = await client.request(
            ApiKey.CREATE_TOPICS, version, CreateTopicsRequest(topics=topics, timeout_ms=7000)
        )
        assert trio.current_time() - started == pytest.approx(7)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", ErrorCode.REQUEST_TIMED_OUT),
        ("b", ErrorCode.REQUEST_TIMED_OUT),
    ]
    assert response.topics[0].error_message == "the Streaming Controller cannot be reached, or has not done it in time"
