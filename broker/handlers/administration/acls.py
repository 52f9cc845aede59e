"""DescribeAcls, CreateAcls and DeleteAcls, versions 1–3: SECURITY_DISABLED, as in Kafka without an authorizer.

There are no access rules. Programs that mirror or show a cluster ask for them in passing, and take this error for the
answer that there are none.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from tailrace.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from tailrace.protocol.messages.describe_acls import DescribeAclsResponse
from tailrace.server.request_context import RequestContext

NO_AUTHORIZER = "there is no authorizer: everybody may do everything"


def handle(host: object, context: RequestContext, request: Any) -> object:
    return _RESPONSES[context.api_key](request)


def _describe_acls(request: object) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)


def _create_acls(request: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER) for _ in request.creations]
    )


def _delete_acls(request: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER) for _ in request.filters]
    )


_RESPONSES: Mapping[int, Callable[[Any], object]] = {
    ApiKey.DESCRIBE_ACLS: _describe_acls,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
}
