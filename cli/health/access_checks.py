"""The check of `tailrace doctor` for access rules: what is open to everybody."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tailrace.cli.output.printing import counted
from tailrace.client.admin_client import acl_records
from tailrace.client.sc_client import ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest
from tailrace.runtime.network import Address, is_loopback
from tailrace.security.acls.acl_codes import Operation, PatternType, Permission, ResourceType
from tailrace.security.acls.acl_filters import text_of_rule
from tailrace.security.acls.authorizer import EVERYBODY
from tailrace.security.identity.principal import ANONYMOUS
from tailrace.security.records.acl_record import AclRecord

from .findings import Finding, Level, listed
from .server_visits import Visit

_SUBJECT = "access"
_ADDRESSES_SHOWN_MAX = 6


class Access(Struct, frozen=True):
    """Who may do what in a cluster."""

    rules: tuple[AclRecord, ...] = ()
    is_enforced: bool = True
    """Whether there is an authorizer. Without one, every client that can connect may do everything."""


async def access_of(client: ScClient) -> Access | None:
    """Returns the access rules of the cluster; None if the SC does not tell them."""
    request = DescribeAclsRequest(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
    try:
        response = await client.ask(request)
    except (UnreachableError, RefusedError):
        return None
    if response.error_code == ErrorCode.SECURITY_DISABLED:
        return Access(is_enforced=False)
    return None if response.error_code else Access(tuple(acl_records(response)))


def listening_addresses(visits: Iterable[Visit]) -> list[Address]:
    """Returns where servers listen; the address that was visited if a server does not say it."""
    found: dict[Address, None] = {}
    for visit in visits:
        if visit.description is not None:
            found |= {Address(each.host, each.port): None for each in visit.description.listeners}
        elif not visit.fault:
            found[visit.target.address] = None
    return list(found)


def access_findings(access: Access | None, addresses: Sequence[Address], *, logs_in: bool) -> list[Finding]:
    """Judges what everybody may do, and clients without a login.

    `addresses` are those at which servers listen. `logs_in` says whether this command had to prove who it is. There is
    no finding if the rules are unknown.
    """
    if access is None:
        return []
    return [_judged(access.rules) if access.is_enforced else _without_rules(addresses, logs_in=logs_in)]


def _without_rules(addresses: Sequence[Address], *, logs_in: bool) -> Finding:
    """Says that everything is open. It is a warning if strangers on other machines can connect."""
    outside = [each for each in addresses if not is_loopback(each.host)]
    if logs_in:
        return Finding(
            Level.OK,
            _SUBJECT,
            "There are no access rules, so each user that can log in may do everything.",
            "Set authorizer.class.name and super.users to give users less: see docs/security.md.",
        )
    if outside:
        return Finding(
            Level.WARNING,
            _SUBJECT,
            "The cluster is open: everybody who reaches "
            f"{listed(outside, _ADDRESSES_SHOWN_MAX)} may read, write and delete everything.",
            "Set TLS, logins and access rules, or start a local cluster with `tailrace up --secure`: see "
            "docs/security.md.",
        )
    return Finding(
        Level.OK,
        _SUBJECT,
        "The cluster is open: every program on this machine may read, write and delete everything.",
        "`tailrace up --secure` closes it.",
    )


def _judged(rules: Sequence[AclRecord]) -> Finding:
    for_all = [
        rule for rule in rules if rule.permission == Permission.ALLOW and rule.principal in (EVERYBODY, str(ANONYMOUS))
    ]
    count = counted(len(rules), "access rule")
    if not for_all:
        return Finding(Level.OK, _SUBJECT, f"Of {count}, none allows anything to everybody.")
    texts = listed(sorted(text_of_rule(rule) for rule in for_all))
    return Finding(
        Level.WARNING,
        _SUBJECT,
        f"Of {count}, {len(for_all)} apply to everybody, or to clients without a login: {texts}.",
        "Delete those that are not meant with `tailrace acl delete`.",
    )
