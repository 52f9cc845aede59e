"""The check of `tailrace doctor` for access rules: what is open to everybody."""

from collections.abc import Sequence

from tailrace.cli.output.printing import counted
from tailrace.client.admin_client import acl_records
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest
from tailrace.security.acls.acl_codes import Operation, PatternType, Permission, ResourceType
from tailrace.security.acls.acl_filters import text_of_rule
from tailrace.security.acls.authorizer import EVERYBODY
from tailrace.security.identity.principal import ANONYMOUS
from tailrace.security.records.acl_record import AclRecord

from .findings import Finding, Level, listed

_SUBJECT = "access"


async def rules_of(client: ScClient) -> list[AclRecord] | None:
    """Returns the access rules; None if there is no authorizer, or if the SC does not tell the rules."""
    request = DescribeAclsRequest(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
    try:
        response = await client.ask(request)
    except (UnreachableError, RefusedError):
        return None
    if response.error_code:
        return None
    return acl_records(response)


def access_findings(rules: Sequence[AclRecord] | None) -> list[Finding]:
    """Judges what everybody may do, and clients without a login. There is no finding without an authorizer."""
    if rules is None:
        return []
    for_all = [
        rule for rule in rules if rule.permission == Permission.ALLOW and rule.principal in (EVERYBODY, str(ANONYMOUS))
    ]
    count = counted(len(rules), "access rule")
    if not for_all:
        return [Finding(Level.OK, _SUBJECT, f"Of {count}, none allows anything to everybody.")]
    texts = listed(sorted(text_of_rule(rule) for rule in for_all))
    return [
        Finding(
            Level.WARNING,
            _SUBJECT,
            f"Of {count}, {len(for_all)} apply to everybody, or to clients without a login: {texts}.",
            "Delete those that are not meant with `tailrace acl delete`.",
        )
    ]
