"""DeleteAcls, versions 1–3: SECURITY_DISABLED for each filter, as from Kafka's brokers without an authorizer."""

from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from tailrace.server.request_context import RequestContext

from .describe_acls import NO_AUTHORIZER

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


def handle(spu: "Spu", context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER) for _ in request.filters]
    )
