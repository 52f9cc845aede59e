"""DescribeAcls, versions 1–3: the access rules that a filter selects, grouped by the resources that they are about.

Every server responds from its mirror of the cluster. Without an authorizer the error is SECURITY_DISABLED, as in Kafka:
programs that mirror or show a cluster ask in passing, and take the error for the answer that there are no rules.
"""

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tailrace.security.acls.acl_filters import AclFilter, selected
from tailrace.server.acl_requests import check_authorizer
from tailrace.server.host import Host
from tailrace.server.request_context import RequestContext


def handle(host: Host, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    chosen = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    try:
        check_authorizer(host)
        chosen.check()
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for rule in selected(host.cluster.security.acls.values(), chosen):
        key = (rule.resource_type, rule.resource_name, rule.pattern_type)
        if key not in resources:
            resources[key] = DescribeAclsResource(*key)
        resources[key].acls.append(AclDescription(rule.principal, rule.host, rule.operation, rule.permission))
    return DescribeAclsResponse(
        error_code=ErrorCode.NONE, error_message=None, resources=[resources[key] for key in sorted(resources)]
    )
