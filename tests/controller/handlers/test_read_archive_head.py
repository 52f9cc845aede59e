from hosts import request_of
from running_workflow import running_workflow

from tailrace.controller.handlers.read_archive_head import handle
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.internal.read_archive_head import ReadArchiveHeadRequest, ReadArchiveHeadResponse

CONTEXT = request_of(ApiKey.METADATA)
ARCHIVE = "2c0f5d31-90f6-4f5a-8a0b-9d1f53d2c8aa"


async def test_a_head_is_read_with_its_version() -> None:
    async with running_workflow() as running:
        assert handle(running.host, CONTEXT, ReadArchiveHeadRequest(ARCHIVE)) == ReadArchiveHeadResponse()
        version = await running.host.archive_requests().write(ARCHIVE, 0, "{}")
        found = handle(running.host, CONTEXT, ReadArchiveHeadRequest(ARCHIVE))
        assert (found.version, found.head) == (version, "{}")
