"""ReadArchiveHead, version 0: reads the head of an archive of the data pipeline."""

from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.internal.read_archive_head import ReadArchiveHeadRequest, ReadArchiveHeadResponse
from tailrace.server.request_context import RequestContext


def handle(host: ObjectHost, context: RequestContext, request: ReadArchiveHeadRequest) -> ReadArchiveHeadResponse:
    found = host.archive_requests().read(request.archive)
    return (
        ReadArchiveHeadResponse() if found is None else ReadArchiveHeadResponse(version=found.version, head=found.text)
    )
