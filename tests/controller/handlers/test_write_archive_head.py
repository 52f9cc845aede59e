from hosts import request_of
from running_workflow import running_workflow

from tailrace.controller.handlers.write_archive_head import handle
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.write_archive_head import WriteArchiveHeadRequest

CONTEXT = request_of(ApiKey.METADATA)
ARCHIVE = "2c0f5d31-90f6-4f5a-8a0b-9d1f53d2c8aa"


async def test_a_write_returns_the_version_that_the_next_write_must_name() -> None:
    async with running_workflow() as running:
        first = await handle(running.host, CONTEXT, WriteArchiveHeadRequest(ARCHIVE, 0, "{}"))
        assert (first.error_code, first.version > 0) == (ErrorCode.NONE, True)
        stale = await handle(running.host, CONTEXT, WriteArchiveHeadRequest(ARCHIVE, 0, "{ }"))
        assert stale.error_code == ErrorCode.INVALID_UPDATE_VERSION
