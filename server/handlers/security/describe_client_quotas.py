"""DescribeClientQuotas, versions 0–1: the quotas whose entities match the filters, from the mirror of the cluster."""

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from tailrace.security.quotas.quota_filters import EntityFilter, UnknownTypeError, check_filters, matching
from tailrace.security.quotas.quota_rules import QuotaError
from tailrace.server.host import Host
from tailrace.server.request_context import RequestContext


def handle(host: Host, context: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    filters = [EntityFilter(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        check_filters(filters)
    except QuotaError as error:
        is_unknown = isinstance(error, UnknownTypeError)
        code = ErrorCode.UNSUPPORTED_VERSION if is_unknown else ErrorCode.INVALID_REQUEST
        return DescribeClientQuotasResponse(error_code=code, error_message=str(error), entries=None)
    found = matching(host.cluster.security.quotas.values(), filters, is_strict=request.strict)
    entries = [
        EntryData(
            [EntityData(kind, name) for kind, name in record.entity],
            [ValueData(name, value) for name, value in sorted(record.values.items())],
        )
        for record in found
    ]
    return DescribeClientQuotasResponse(error_message=None, entries=entries)
