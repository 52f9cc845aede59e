from hosts import request_of
from running_workflow import running_workflow

from tailrace.controller.handlers.write_stream_state import handle
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.write_stream_state import WriteStreamStateRequest

CONTEXT = request_of(ApiKey.METADATA)


async def test_a_write_returns_the_version_that_the_next_write_must_name() -> None:
    async with running_workflow() as running:
        await running.create_topic("orders", 1)
        first = await handle(running.host, CONTEXT, WriteStreamStateRequest("orders", "g", 0, '{"members": []}'))
        assert (first.error_code, first.version > 0) == (ErrorCode.NONE, True)
        stale = await handle(running.host, CONTEXT, WriteStreamStateRequest("orders", "g", 0, '{"members": []}'))
        assert stale.error_code == ErrorCode.INVALID_UPDATE_VERSION
        removed = await handle(running.host, CONTEXT, WriteStreamStateRequest("orders", "g", first.version, None))
        assert (removed.error_code, removed.version) == (ErrorCode.NONE, 0)
