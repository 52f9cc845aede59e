"""What the controller makes of it, tests/server/handlers/ shows; here it is away."""

import pytest
import trio
from abandoned_spus import client_of_abandoned_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_TOPIC_ID, TopicId
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

TOPIC = TopicId(int=9)
BY_NAME = DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=7000)
BY_EITHER = DeleteTopicsRequest(topics=[DeleteTopicState("a"), DeleteTopicState(None, TOPIC)], timeout_ms=7000)


@pytest.mark.parametrize(
    ("version", "request_", "named"),
    [(1, BY_NAME, [("a", NO_TOPIC_ID), ("b", NO_TOPIC_ID)]), (6, BY_EITHER, [("a", NO_TOPIC_ID), (None, TOPIC)])],
)
async def test_without_a_controller_each_topic_times_out_in_the_clients_time(
    autojump_clock: object, version: int, request_: DeleteTopicsRequest, named: list[tuple[str | None, TopicId]]
) -> None:
    async with client_of_abandoned_spu() as client:
        started = trio.current_time()
        response = await client.request(ApiKey.DELETE_TOPICS, version, request_)
        assert trio.current_time() - started == pytest.approx(7)
    assert [(topic.name, topic.topic_id) for topic in response.responses] == named
    assert {topic.error_code for topic in response.responses} == {ErrorCode.REQUEST_TIMED_OUT}
