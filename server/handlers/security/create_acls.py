"""CreateAcls, versions 1–3: stores access rules. A rule that exists already is stored again, without an error.

Hosts may be ranges of addresses, such as 10.0.0.0/8. Without an authorizer the error is SECURITY_DISABLED, as in Kafka.
"""

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from tailrace.security.acls.acl_filters import check_rule
from tailrace.security.records.acl_record import AclRecord
from tailrace.security.records.security_records import RecordError, check_record
from tailrace.server.acl_requests import check_authorizer
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext


async def handle(host: AdministeringHost, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    rules = [
        AclRecord(
            each.resource_type,
            each.resource_pattern_type,
            each.resource_name,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    outcomes: dict[AclRecord, KafkaError | None] = {rule: _check(host, rule) for rule in rules}
    right = [rule for rule, error in outcomes.items() if error is None]
    if right:
        outcomes.update(zip(right, await _store(host, right), strict=True))
    return CreateAclsResponse(results=[_result(outcomes[rule]) for rule in rules])


async def _store(host: AdministeringHost, rules: list[AclRecord]) -> list[KafkaError | None]:
    try:
        return await host.administration.change_security(rules)
    except KafkaError as error:
        return [error] * len(rules)


def _check(host: AdministeringHost, rule: AclRecord) -> KafkaError | None:
    try:
        check_authorizer(host)
        check_rule(rule)
        check_record(rule)
    except KafkaError as error:
        return error
    except RecordError as error:
        return KafkaError(ErrorCode.INVALID_REQUEST, str(error))
    return None


def _result(error: KafkaError | None) -> AclCreationResult:
    return AclCreationResult(error_message=None) if error is None else AclCreationResult(error.code, error.message)
