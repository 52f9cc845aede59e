"""Explanations of decisions."""

from tailrace.security.acls.acl_codes import Operation, PatternType, Permission, ResourceType
from tailrace.security.acls.acl_explanation import explain, question, sentence_of
from tailrace.security.acls.authorizer import Authorizer
from tailrace.security.identity.principal import SERVER, Principal
from tailrace.security.records.acl_record import AclRecord
from tailrace.security.records.security_tables import SecurityTables

ALICE = Principal("User", "alice")


def _rule(who: str, *, permission: Permission = Permission.ALLOW, host: str = "*") -> AclRecord:
    return AclRecord(ResourceType.TOPIC, PatternType.LITERAL, "orders", who, host, Operation.READ, permission)


def _explain(*rules: AclRecord, super_users: tuple[str, ...] = (), open_: bool = False) -> list[str]:
    tables = SecurityTables()
    for rule in rules:
        tables.put(rule)
    authorizer = Authorizer(tables, super_users, allows_everyone_without_rule=open_)
    return explain(authorizer, ALICE, "10.0.0.1", Operation.READ, ResourceType.TOPIC, "orders")


def test_the_question_is_a_sentence() -> None:
    asked = question(ALICE, "10.0.0.1", Operation.READ, ResourceType.TOPIC, "orders")
    assert asked == "May User:alice read topic orders from 10.0.0.1?"


def test_a_rule_that_decides_is_named() -> None:
    assert _explain(_rule("User:alice")) == ["Yes, because there is the rule 'allow User:alice to read topic orders'."]
    assert _explain(_rule("User:alice"), _rule("User:*", permission=Permission.DENY)) == [
        "No, because there is the rule 'deny User:* to read topic orders'."
    ]


def test_without_an_allowance_the_rules_that_nearly_apply_are_named() -> None:
    assert _explain(_rule("User:bob")) == [
        "No, because no rule allows it.",
        "The rule 'allow User:bob to read topic orders' is for User:bob only.",
    ]
    assert _explain(_rule("User:alice", host="10.0.0.2")) == [
        "No, because no rule allows it.",
        "The rule 'allow User:alice to read topic orders from 10.0.0.2' is for clients from 10.0.0.2 only.",
    ]
    assert _explain() == ["No, because no rule allows it."]
    assert _explain(*(_rule(f"User:u{number}") for number in range(5)))[-1] == "2 more rules allow it to others."


def test_settings_that_decide_are_named() -> None:
    assert _explain(super_users=("User:alice",)) == ["Yes, because super.users has the principal."]
    assert _explain(open_=True) == [
        "Yes, because no rule is about the resource, and allow.everyone.if.no.acl.found is true."
    ]
    server = Authorizer(SecurityTables()).decide(Principal(SERVER, "spu-1"), "", Operation.READ, 2, "orders")
    assert sentence_of(server) == "the client is a server of this cluster"
