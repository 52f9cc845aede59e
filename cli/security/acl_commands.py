"""`tailrace acl …`: creates, lists, deletes and tests access rules, on Apache Kafka as well."""

import argparse
from collections.abc import Sequence

from tailrace.cli.options.sc_options import UsageError, show_documents
from tailrace.cli.options.spu_options import admin_command
from tailrace.cli.output.printing import counted, plain
from tailrace.cli.output.tables import table
from tailrace.client.admin_client import BROKER_RESOURCE, AdminClient, ConfigResource
from tailrace.client.server_connection import RefusedError
from tailrace.security.acls.acl_codes import (
    CLUSTER_NAME,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    name_of,
)
from tailrace.security.acls.acl_explanation import explain, question
from tailrace.security.acls.acl_filters import AclFilter, text_of_rule
from tailrace.security.acls.authorizer import Authorizer
from tailrace.security.acls.host_patterns import HostError, check_host
from tailrace.security.records.acl_record import AclRecord
from tailrace.security.records.security_tables import SecurityTables
from tailrace.security.settings.authorizer_settings import ALLOW_EVERYONE, SUPER_USERS

from .acl_options import operation_of, patterns, principal_of, resource_options, rules

DENIED = 1


def _who_and_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("principal", metavar="USER", help="The user: alice, User:alice, or '*' for all users.")
    parser.add_argument(
        "operations",
        metavar="OPERATION",
        nargs="+",
        help="read, write, create, delete, alter, describe, describe-configs, alter-configs, all …",
    )
    resource_options(parser, takes_patterns=True)
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        default=WILDCARD,
        help="Where the client comes from: an address, a range such as 10.0.0.0/8, or * (default: *).",
    )


# create


def _create_options(parser: argparse.ArgumentParser) -> None:
    _who_and_what(parser)
    parser.add_argument("--deny", action="store_true", help="Deny it. A rule that denies wins over all others.")
    parser.add_argument("--dry-run", action="store_true", help="Show the rules, and create none.")


async def _create(admin: AdminClient, arguments: argparse.Namespace) -> None:
    wanted = rules(arguments)
    if not arguments.dry_run:
        await admin.create_acls(wanted)
    note = "\nNothing was created: leave out --dry-run to do it." if arguments.dry_run else ""
    _show(arguments, wanted, note)


# list


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--principal", metavar="USER", help="Only rules for this user.")
    parser.add_argument("--operation", metavar="OPERATION", help="Only rules about this operation.")
    resource_options(parser, takes_patterns=False)


async def _list(admin: AdminClient, arguments: argparse.Namespace) -> None:
    found: dict[AclRecord, None] = {}
    for chosen in _filters(arguments):
        found |= dict.fromkeys(await admin.acls(chosen))
    _show(arguments, list(found))


def _filters(arguments: argparse.Namespace) -> list[AclFilter]:
    """Returns filters for all patterns that the named resources match, or for all resources."""
    principal = None if arguments.principal is None else str(principal_of(arguments.principal))
    operation = Operation.ANY if arguments.operation is None else operation_of(arguments.operation)
    named = patterns(arguments)
    if not named:
        return [AclFilter(principal=principal, operation=operation)]
    return [AclFilter(kind, name, PatternType.MATCH, principal, None, operation) for kind, _, name in named]


# delete


def _delete_options(parser: argparse.ArgumentParser) -> None:
    _who_and_what(parser)
    parser.add_argument("--deny", action="store_true", help="Delete rules that deny, not those that allow.")


async def _delete(admin: AdminClient, arguments: argparse.Namespace) -> None:
    wanted = rules(arguments)
    deleted = await admin.delete_acls([_exactly(rule) for rule in wanted])
    if missing := [rule for rule in wanted if rule not in deleted]:
        sentences = "; ".join(text_of_rule(rule) for rule in missing)
        raise RefusedError(f"{counted(len(missing), 'rule')} did not exist: {sentences}")
    _show(arguments, deleted, f"\nDeleted {counted(len(deleted), 'rule')}.")


def _exactly(rule: AclRecord) -> AclFilter:
    return AclFilter(
        rule.resource_type,
        rule.resource_name,
        rule.pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission,
    )


# test


def _test_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("principal", metavar="USER", help="The user: alice or User:alice.")
    parser.add_argument("operation", metavar="OPERATION", help="What the user wants to do, for example read.")
    resource_options(parser, takes_patterns=False)
    parser.add_argument("--host", metavar="ADDRESS", default="", help="The address that the user comes from.")


async def _test(admin: AdminClient, arguments: argparse.Namespace) -> int | None:
    principal, operation = principal_of(arguments.principal), operation_of(arguments.operation)
    if len(named := patterns(arguments)) != 1:
        raise UsageError("name one resource to test: --topic, --group, --transactional-id or --cluster")
    try:
        check_host(arguments.host or WILDCARD)
    except HostError as error:
        raise UsageError(str(error)) from error
    (kind, _, name) = named[0]
    authorizer, hidden = await _authorizer(admin)
    asked = (principal, arguments.host, operation, kind, name)
    decision = authorizer.decide(*asked)
    sentences = explain(authorizer, *asked)
    if hidden and not decision.allowed:
        sentences.append(f"But the servers do not tell {' and '.join(hidden)}, which may allow it.")
    document = {
        "principal": str(principal),
        "operation": name_of(operation),
        "resourceType": name_of(kind),
        "resourceName": name,
        "host": arguments.host or None,
        "allowed": decision.allowed,
        "because": sentences,
    }
    show_documents(arguments, [document], lambda: "\n".join(map(plain, (question(*asked), *sentences))))
    return None if decision.allowed else DENIED


async def _authorizer(admin: AdminClient) -> tuple[Authorizer, list[str]]:
    """Makes an authorizer with the rules and settings of the cluster, which decides as the servers do.

    Also returns the settings that the servers hide: Apache Kafka hides both from everybody.
    """
    tables = SecurityTables()
    for rule in await admin.acls(AclFilter()):
        tables.put(rule)
    settings: dict[str, str | None] = {}
    try:
        broker = next(each for each in await admin.brokers() if not each.is_fenced)
        configs = await admin.configs(ConfigResource(BROKER_RESOURCE, str(broker.id)), documented=False)
        settings = {each.name: each.value for each in configs}
    except RefusedError:
        settings = dict.fromkeys((SUPER_USERS, ALLOW_EVERYONE))  # the client may list rules, but may not see settings
    hidden = [name for name in (SUPER_USERS, ALLOW_EVERYONE) if name in settings and settings[name] is None]
    users = [each.strip() for each in (settings.get(SUPER_USERS) or "").split(";")]
    allows_everyone = settings.get(ALLOW_EVERYONE) == "true"
    return Authorizer(tables, filter(None, users), allows_everyone_without_rule=allows_everyone), hidden


# output


def _document(rule: AclRecord) -> dict[str, object]:
    return {
        "permission": name_of(Permission(rule.permission)),
        "principal": rule.principal,
        "operation": name_of(Operation(rule.operation)),
        "resourceType": name_of(ResourceType(rule.resource_type)),
        "patternType": name_of(PatternType(rule.pattern_type)),
        "resourceName": rule.resource_name,
        "host": rule.host,
    }


def _resource(rule: AclRecord) -> str:
    return rule.resource_name + (WILDCARD if rule.pattern_type == PatternType.PREFIXED else "")


def _show(arguments: argparse.Namespace, found: Sequence[AclRecord], note: str = "") -> None:
    found = sorted(found, key=lambda rule: (rule.principal, rule.resource_type, rule.resource_name, rule.operation))
    rows = [
        (
            rule.principal,
            name_of(Permission(rule.permission)).lower(),
            name_of(Operation(rule.operation)),
            name_of(ResourceType(rule.resource_type)),
            "" if rule.resource_name == CLUSTER_NAME else _resource(rule),
            rule.host,
        )
        for rule in found
    ]
    titles = ("PRINCIPAL", "RULE", "OPERATION", "TYPE", "RESOURCE", "HOST")
    show_documents(arguments, [_document(rule) for rule in found], lambda: table(titles, rows) + note)


COMMANDS = {
    "create": admin_command("acl create", _create_options, _create),
    "list": admin_command("acl list", _list_options, _list, is_watchable=True),
    "delete": admin_command("acl delete", _delete_options, _delete),
    "test": admin_command("acl test", _test_options, _test),
}
