"""Says in a few sentences why a request is allowed or denied, for `tailrace acl test` and for audits."""

from tailrace.security.identity.principal import Principal
from tailrace.security.records.acl_record import AclRecord

from .acl_codes import IMPLIED, Operation, Permission, ResourceType
from .acl_filters import operation_words, resource_words, text_of_rule
from .authorizer import EVERYBODY, Authorizer, Decision, Reason
from .host_patterns import host_matches

SHOWN_MAX = 3
"""How many rules an explanation names that do not apply."""


def sentence_of(decision: Decision) -> str:
    """Says why a decision was made, in one clause."""
    if decision.rule is not None:
        return f"rule: {text_of_rule(decision.rule)}"
    match decision.reason:
        case Reason.SERVER:
            return "the client is a server of this cluster"
        case Reason.SUPER_USER:
            return "super.users has the principal"
        case Reason.NO_RULE_ABOUT_RESOURCE if decision.allowed:
            return "no rule is about the resource, and allow.everyone.if.no.acl.found is true"
        case _:
            return "no rule allows it"


def explain(
    authorizer: Authorizer, principal: Principal, host: str, operation: int, resource_type: int, resource_name: str
) -> list[str]:
    """Answers whether a principal may do something, and why, in one sentence per item.

    If no rule allows it, the sentences after the first name rules that nearly apply, and why they do not.
    """
    decision = authorizer.decide(principal, host, operation, resource_type, resource_name)
    answer = "Yes" if decision.allowed else "No"
    lines = [f"{answer}, because {_reason(decision)}."]
    if decision.allowed or decision.rule is not None:
        return lines
    near = [
        rule
        for rule in authorizer.rules_about(resource_type, resource_name)
        if rule.permission == Permission.ALLOW and _grants(rule, operation)
    ]
    near.sort(key=lambda rule: (rule.principal != str(principal), text_of_rule(rule)))
    for rule in near[:SHOWN_MAX]:
        lines.append(f"The rule '{text_of_rule(rule)}' {_why_not(rule, principal, host)}.")
    if len(near) > SHOWN_MAX:
        lines.append(f"{len(near) - SHOWN_MAX} more rules allow it to others.")
    return lines


def question(principal: Principal, host: str, operation: int, resource_type: int, resource_name: str) -> str:
    """Says what is asked: `May User:alice read topic orders from 10.0.0.1?`"""
    place = f" from {host}" if host else ""
    kind = resource_words(resource_type)
    resource = "the cluster" if resource_type == ResourceType.CLUSTER else f"{kind} {resource_name}"
    return f"May {principal} {operation_words(operation)} {resource}{place}?"


def _reason(decision: Decision) -> str:
    if decision.rule is None:
        return sentence_of(decision)
    return f"there is the rule '{text_of_rule(decision.rule)}'"


def _grants(rule: AclRecord, operation: int) -> bool:
    return rule.operation in (operation, Operation.ALL) or operation in IMPLIED.get(rule.operation, ())


def _why_not(rule: AclRecord, principal: Principal, host: str) -> str:
    if rule.principal not in (str(principal), EVERYBODY):
        return f"is for {rule.principal} only"
    assert not host_matches(rule.host, host), "a rule that applies has decided"
    return f"is for clients from {rule.host} only"
