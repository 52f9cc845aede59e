"""CreateAcls, versions 1–3: SECURITY_DISABLED for each, as from Kafka's brokers without an authorizer."""

from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from tailrace.server.request_context import RequestContext

from .describe_acls import NO_AUTHORIZER

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


def handle(spu: "Spu", context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER) for _ in request.creations]
    )
