import json

from hosts import request_of
from running_workflow import running_workflow

from tailrace.controller.handlers.read_stream_state import handle
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.read_stream_state import HeartbeatAge, ReadStreamStateRequest

CONTEXT = request_of(ApiKey.METADATA)
ATTRIBUTE = json.dumps(
    {"members": [{"member_id": "replica1", "shards": "0", "last_heartbeat": "2026-01-31T12:00:00Z"}], "epoch": 1}
)


async def test_the_groups_of_a_stream_are_read(autojump_clock: object) -> None:
    async with running_workflow() as running:
        await running.create_topic("orders", 3)
        version = await running.host.trigger_requests().write_stream("orders", "billing", 0, ATTRIBUTE)
        response = handle(running.host, CONTEXT, ReadStreamStateRequest("orders"))
        assert (response.error_code, response.shards, response.replicas) == (ErrorCode.NONE, 3, 0)
        (group,) = response.groups
        assert (group.group, group.version, group.state) == ("billing", version, ATTRIBUTE)
        assert group.ages == [HeartbeatAge("replica1", 0)]
        assert handle(running.host, CONTEXT, ReadStreamStateRequest("orders", "audit")).groups == []


async def test_a_topic_that_is_not_there_is_an_error() -> None:
    async with running_workflow() as running:
        response = handle(running.host, CONTEXT, ReadStreamStateRequest("orders"))
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert response.error_message == "there is no topic orders"
