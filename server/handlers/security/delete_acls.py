"""DeleteAcls, versions 1–3: deletes the access rules that filters select, and returns them for each filter.

A rule that several filters select is deleted once and listed for each. Without an authorizer the error is
SECURITY_DISABLED, as in Kafka.
"""

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tailrace.security.acls.acl_filters import AclFilter, selected
from tailrace.security.records.acl_record import AclRecord
from tailrace.security.records.security_records import ACL, key_of
from tailrace.server.acl_requests import check_authorizer
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext


async def handle(host: AdministeringHost, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    found = [_find(host, each) for each in request.filters]
    doomed = list(dict.fromkeys(rule for rules in found if not isinstance(rules, KafkaError) for rule in rules))
    outcomes = dict(zip(doomed, await _delete(host, doomed), strict=True)) if doomed else {}
    return DeleteAclsResponse(filter_results=[_result(rules, outcomes) for rules in found])


def _find(host: AdministeringHost, asked: DeleteAclsFilter) -> list[AclRecord] | KafkaError:
    chosen = AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
    try:
        check_authorizer(host)
        chosen.check()
    except KafkaError as error:
        return error
    return list(selected(host.cluster.security.acls.values(), chosen))


async def _delete(host: AdministeringHost, rules: list[AclRecord]) -> list[KafkaError | None]:
    try:
        return await host.administration.change_security((), [(ACL, key_of(rule)) for rule in rules])
    except KafkaError as error:
        return [error] * len(rules)


def _result(
    found: list[AclRecord] | KafkaError, outcomes: dict[AclRecord, KafkaError | None]
) -> DeleteAclsFilterResult:
    if isinstance(found, KafkaError):
        return DeleteAclsFilterResult(found.code, found.message)
    return DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(rule, outcomes[rule]) for rule in found])


def _matching(rule: AclRecord, error: KafkaError | None) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        ErrorCode.NONE if error is None else error.code,
        None if error is None else error.message,
        rule.resource_type,
        rule.resource_name,
        rule.pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission,
    )
