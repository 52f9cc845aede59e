"""The options of `tailrace acl`: principals, operations, and patterns of resources as people write them.

`orders` is one name, `orders-*` are all names that begin with `orders-`, and `*` are all names.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from tailrace.cli.options.sc_options import UsageError
from tailrace.protocol.error_codes import KafkaError
from tailrace.security.acls.acl_codes import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    CodeError,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    code_of,
    name_of,
)
from tailrace.security.acls.acl_filters import check_rule, resource_words
from tailrace.security.identity.principal import USER, Principal, PrincipalError, parse_principal
from tailrace.security.records.acl_record import AclRecord

_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "token": ResourceType.DELEGATION_TOKEN,
    "user": ResourceType.USER,
}


class Pattern(NamedTuple):
    """The resources that a rule is about."""

    kind: ResourceType
    pattern: PatternType
    name: str


def resource_options(parser: argparse.ArgumentParser, *, takes_patterns: bool) -> None:
    """Adds the options that name resources."""
    form = "NAME, NAME* or *" if takes_patterns else "NAME"
    for option, kind in _KINDS.items():
        words = "delegation token" if option == "token" else resource_words(kind)
        parser.add_argument(
            f"--{option.replace('_', '-')}",
            metavar=form,
            action="append",
            default=[],
            help=f"A {words}; may be repeated." + (" NAME* are all that begin so." if takes_patterns else ""),
        )
    parser.add_argument("--cluster", action="store_true", help="The cluster itself.")


def patterns(arguments: argparse.Namespace) -> list[Pattern]:
    """Returns the patterns that were given."""
    found = [_pattern(kind, text, option) for option, kind in _KINDS.items() for text in getattr(arguments, option)]
    if arguments.cluster:
        found.append(Pattern(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME))
    return found


def _pattern(kind: ResourceType, text: str, option: str) -> Pattern:
    if not text:
        raise UsageError(f"--{option.replace('_', '-')}: the name is empty; use * for all")
    if kind == ResourceType.USER and text != WILDCARD:
        text = str(principal_of(text))
    if text != WILDCARD and text.endswith(WILDCARD):
        return Pattern(kind, PatternType.PREFIXED, text[:-1])
    return Pattern(kind, PatternType.LITERAL, text)


def principal_of(text: str) -> Principal:
    """Returns a principal; `alice` stands for `User:alice`. Raises UsageError."""
    try:
        return parse_principal(text if ":" in text else f"{USER}:{text}")
    except PrincipalError as error:
        raise UsageError(str(error)) from error


def operation_of(text: str) -> Operation:
    """Returns the operation of a name in any spelling. Raises UsageError."""
    try:
        operation = code_of(Operation, text)
    except CodeError:
        operation = Operation.ANY
    if operation == Operation.ANY:
        names = ", ".join(name_of(each) for each in Operation if each > Operation.ANY)
        raise UsageError(f"{text!r:.80} is not an operation; there are {names}")
    return operation


def rules(arguments: argparse.Namespace) -> list[AclRecord]:
    """Returns the rules that the arguments describe: each operation on each resource. Raises UsageError."""
    found = list(_rules(arguments))
    if not found:
        raise UsageError("say what the rule is about: give --topic, --group, --cluster or another resource")
    for rule in found:
        try:
            check_rule(rule)
        except KafkaError as error:
            raise UsageError(error.message) from error
    return found


def _rules(arguments: argparse.Namespace) -> Iterator[AclRecord]:
    principal = str(principal_of(arguments.principal))
    permission = Permission.DENY if arguments.deny else Permission.ALLOW
    wanted = [operation_of(text) for text in arguments.operations]
    for operation in wanted:
        fitting = [each for each in patterns(arguments) if operation in (Operation.ALL, *OPERATIONS[each.kind])]
        if patterns(arguments) and not fitting:
            kinds = ", ".join(sorted({resource_words(each.kind) for each in patterns(arguments)}))
            raise UsageError(f"{name_of(operation)} is not an operation on a {kinds}")
        for kind, pattern, name in fitting:
            yield AclRecord(kind, pattern, name, principal, arguments.host, operation, permission)
