"""DescribeAcls, versions 1–3: SECURITY_DISABLED, as from Kafka's brokers without an authorizer; here nobody is one.

Programs that mirror a cluster, or show it, ask in passing, and take that for an answer.
"""

from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tailrace.server.request_context import RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu

NO_AUTHORIZER = "there is no authorizer: everybody may do everything"


def handle(spu: "Spu", context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
