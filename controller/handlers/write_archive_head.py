"""WriteArchiveHead, version 0: writes the head of an archive if it has not changed since the caller read it."""

from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.write_archive_head import WriteArchiveHeadRequest, WriteArchiveHeadResponse
from tailrace.server.request_context import RequestContext


async def handle(
    host: ObjectHost, context: RequestContext, request: WriteArchiveHeadRequest
) -> WriteArchiveHeadResponse:
    try:
        version = await host.archive_requests().write(request.archive, request.expected_version, request.head)
    except KafkaError as error:
        return WriteArchiveHeadResponse(error_code=error.code, error_message=error.message)
    return WriteArchiveHeadResponse(version=version)
