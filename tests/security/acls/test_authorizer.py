"""Decisions about requests: the properties of Kafka's StandardAuthorizer, checked against a plain model."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.security.acls.acl_codes import CLUSTER_NAME, IMPLIED, OPERATIONS, Operation, PatternType, Permission
from tailrace.security.acls.acl_codes import ResourceType as Type
from tailrace.security.acls.authorizer import Authorizer, Reason
from tailrace.security.identity.principal import ANONYMOUS, SERVER, Principal
from tailrace.security.records.acl_record import AclRecord
from tailrace.security.records.security_records import ACL, USER, key_of
from tailrace.security.records.security_tables import SecurityTables
from tailrace.security.records.user_record import UserRecord

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
HOST = "192.168.1.7"


def _rule(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    who: str = "User:alice",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    kind: Type = Type.TOPIC,
) -> AclRecord:
    return AclRecord(kind, pattern, name, who, host, operation, permission)


def _tables(rules: Sequence[AclRecord]) -> SecurityTables:
    tables = SecurityTables()
    for rule in rules:
        tables.put(rule)
    return tables


def _authorizer(*rules: AclRecord, super_users: Sequence[str] = (), open_: bool = False) -> Authorizer:
    return Authorizer(_tables(rules), super_users, allows_everyone_without_rule=open_)


def _may(authorizer: Authorizer, operation: Operation, name: str = "orders", who: Principal = ALICE) -> bool:
    return authorizer.allows(who, HOST, operation, Type.TOPIC, name)


# single facts


def test_without_a_rule_nothing_is_allowed_but_with_the_setting_everything_is() -> None:
    assert not _may(_authorizer(), Operation.READ)
    assert _may(_authorizer(open_=True), Operation.READ)


def test_a_rule_about_a_resource_closes_it_to_others_even_with_the_setting() -> None:
    authorizer = _authorizer(_rule(), open_=True)
    assert _may(authorizer, Operation.READ)
    assert not _may(authorizer, Operation.WRITE)
    assert not _may(authorizer, Operation.READ, who=BOB)
    assert _may(authorizer, Operation.READ, "payments", BOB)


def test_super_users_and_servers_may_do_everything_and_others_of_the_same_name_may_not() -> None:
    authorizer = _authorizer(_rule(permission=Permission.DENY, who="User:*"), super_users=["User:root"])
    root = authorizer.decide(Principal("User", "root"), HOST, Operation.READ, Type.TOPIC, "orders")
    assert root == (True, Reason.SUPER_USER, None)
    assert authorizer.is_unlimited(Principal("User", "root"))
    assert authorizer.decide(Principal(SERVER, "spu-1"), HOST, Operation.READ, Type.TOPIC, "orders").allowed
    assert not authorizer.is_unlimited(Principal("Group", "root"))
    assert not _may(authorizer, Operation.READ, who=Principal("Group", "root"))


def test_a_denial_wins_over_every_allowance_wherever_it_is() -> None:
    allow_all = _rule("*", Operation.ALL, who="User:*")
    for denial in (
        _rule(permission=Permission.DENY),
        _rule("ord", permission=Permission.DENY, pattern=PatternType.PREFIXED),
        _rule("*", permission=Permission.DENY),
        _rule("orders", Operation.ALL, Permission.DENY, who="User:*"),
    ):
        authorizer = _authorizer(allow_all, _rule(), denial)
        assert not _may(authorizer, Operation.READ)
        assert authorizer.decide(ALICE, HOST, Operation.READ, Type.TOPIC, "orders").rule == denial
    assert _may(_authorizer(allow_all, _rule(permission=Permission.DENY)), Operation.READ, who=BOB)


def test_allowing_an_operation_implies_others_and_denying_does_not() -> None:
    for operation, implied in IMPLIED.items():
        allowing = _authorizer(_rule(operation=Operation(operation)))
        allowed = {each for each in Operation if each > Operation.ALL and _may(allowing, each)}
        assert allowed == implied
        denying = _authorizer(
            _rule(operation=Operation.ALL), _rule(operation=Operation(operation), permission=Permission.DENY)
        )
        assert {each for each in Operation if each > Operation.ALL and not _may(denying, each)} == {operation}


def test_hosts_are_addresses_ranges_or_all() -> None:
    for host, is_there in {"192.168.1.7": True, "192.168.0.0/16": True, "10.0.0.0/8": False, "*": True}.items():
        assert _may(_authorizer(_rule(host=host)), Operation.READ) is is_there


def test_every_prefix_counts_and_none_that_is_longer_or_different() -> None:
    for prefix, counts in {"o": True, "ord": True, "orders": True, "orders-": False, "p": False}.items():
        authorizer = _authorizer(_rule(prefix, pattern=PatternType.PREFIXED))
        assert _may(authorizer, Operation.READ) is counts


def test_a_rule_for_one_type_of_resource_says_nothing_about_others() -> None:
    authorizer = _authorizer(_rule("*", Operation.ALL, kind=Type.GROUP))
    assert not _may(authorizer, Operation.READ)
    assert authorizer.allows(ALICE, HOST, Operation.READ, Type.GROUP, "readers")


def test_the_allowed_operations_are_bits() -> None:
    authorizer = _authorizer(_rule(), _rule(CLUSTER_NAME, Operation.ALL, kind=Type.CLUSTER))
    topic = authorizer.allowed_operations(ALICE, HOST, Type.TOPIC, "orders")
    assert topic == 1 << Operation.READ | 1 << Operation.DESCRIBE
    cluster = authorizer.allowed_operations(ALICE, HOST, Type.CLUSTER, CLUSTER_NAME)
    assert cluster == sum(1 << each for each in OPERATIONS[Type.CLUSTER])
    assert authorizer.allowed_operations(ANONYMOUS, HOST, Type.TOPIC, "orders") == 0


# changes


def test_a_change_has_effect_at_once_and_other_records_change_nothing() -> None:
    tables = _tables([_rule()])
    authorizer = Authorizer(tables)
    assert _may(authorizer, Operation.READ)
    tables.put(UserRecord("carol", ()))
    assert _may(authorizer, Operation.READ)
    tables.remove(ACL, key_of(_rule()))
    assert not _may(authorizer, Operation.READ)
    tables.put(_rule("ord", pattern=PatternType.PREFIXED))
    assert _may(authorizer, Operation.READ)
    tables.remove(USER, "carol")
    tables.remove(ACL, key_of(_rule("ord", pattern=PatternType.PREFIXED)))
    assert not _may(authorizer, Operation.READ)


# some resource of a type


def _may_some(*rules: AclRecord, open_: bool = False) -> bool:
    return _authorizer(*rules, open_=open_).allows_some(ALICE, HOST, Operation.WRITE, Type.TOPIC)


def test_some_topic_is_writable_if_one_allowance_is_not_denied() -> None:
    write, deny = Operation.WRITE, Permission.DENY
    prefixed = PatternType.PREFIXED
    assert not _may_some()
    assert _may_some(open_=True)
    assert _may_some(_rule("a", write))
    assert _may_some(_rule("a", write, pattern=prefixed))
    assert _may_some(_rule("a", Operation.ALL, who="User:*"))
    assert _may_some(_rule("*", write))
    assert not _may_some(_rule("a", write, who="User:bob"))
    assert not _may_some(_rule("a", write, host="10.0.0.1"))
    # Denials of other names, hosts and principals do not matter.
    assert _may_some(_rule("a", write), _rule("b", write, deny), _rule("ab", write, deny, pattern=prefixed))
    assert _may_some(_rule("a", write), _rule("a", write, deny, who="User:bob"))
    assert _may_some(_rule("a", write), _rule("a", write, deny, host="10.0.0.1"))
    # Denials of the same name, of a prefix and of everything do.
    assert not _may_some(_rule("ab", write), _rule("ab", write, deny))
    assert not _may_some(_rule("ab", write), _rule("a", write, deny, pattern=prefixed))
    assert not _may_some(_rule("ab", write, pattern=prefixed), _rule("a", write, deny, pattern=prefixed))
    assert not _may_some(_rule("a", write), _rule("*", Operation.ALL, deny))
    assert not _may_some(_rule("a", write), _rule("*", write, deny), open_=True)
    # A literal denial leaves the other names of a prefix.
    assert _may_some(_rule("ab", write, pattern=prefixed), _rule("ab", write, deny))


# properties, against a model that reads every rule

_NAMES = st.text("ab-.", min_size=1, max_size=6)
_RULES = st.builds(
    AclRecord,
    st.sampled_from([Type.TOPIC, Type.GROUP]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.one_of(_NAMES, st.just("*")),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", HOST, "10.0.0.1", "192.168.0.0/16"]),
    st.sampled_from([Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE]),
    st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)


def _model(rules: Sequence[AclRecord], operation: int, name: str, *, default: bool) -> bool:
    about = [
        rule
        for rule in rules
        if rule.resource_type == Type.TOPIC
        and (
            name.startswith(rule.resource_name)
            if rule.pattern_type == PatternType.PREFIXED
            else rule.resource_name in ("*", name)
        )
    ]
    for_me = [
        rule
        for rule in about
        if rule.principal in ("User:*", "User:alice") and rule.host in ("*", HOST, "192.168.0.0/16")
    ]
    if any(rule.permission == Permission.DENY and rule.operation in (operation, Operation.ALL) for rule in for_me):
        return False
    for rule in for_me:
        if rule.permission == Permission.ALLOW and (
            rule.operation in (operation, Operation.ALL) or operation in IMPLIED.get(rule.operation, ())
        ):
            return True
    return default and not about


@given(
    st.lists(_RULES, max_size=30),
    st.lists(st.integers(0, 29), max_size=10),
    _NAMES,
    st.sampled_from([Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER]),
    st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_the_index_decides_as_a_reading_of_all_rules_does(
    rules: list[AclRecord], removed: list[int], name: str, operation: Operation, default: bool
) -> None:
    tables = _tables(rules)
    authorizer = Authorizer(tables, allows_everyone_without_rule=default)
    assert _may(authorizer, operation, name) == _model(rules, operation, name, default=default)
    left = [rule for number, rule in enumerate(rules) if number not in removed]
    for number in removed:
        if number < len(rules) and rules[number] not in left:
            tables.remove(ACL, key_of(rules[number]))
    assert _may(authorizer, operation, name) == _model(left, operation, name, default=default)


@given(
    _NAMES, st.integers(1, 6), st.lists(st.tuples(st.integers(0, 6), _NAMES), max_size=10), st.sampled_from(Permission)
)
@settings(max_examples=200, deadline=None)
def test_a_matching_rule_decides_whatever_prefixes_others_have(
    topic: str, length: int, others: list[tuple[int, str]], kind: Permission
) -> None:
    """The four properties of Kafka's StandardAuthorizerPropertyTest: a denial of a prefix or of the name overrides all
    allowances, and an allowance counts if no denial matches."""
    permission = Permission.DENY if kind == Permission.DENY else Permission.ALLOW
    other = Permission.ALLOW if permission == Permission.DENY else Permission.DENY
    patterns = {topic[:cut] + suffix for cut, suffix in others}
    if other == Permission.DENY:
        patterns = {each for each in patterns if not topic.startswith(each)}
    noise = [_rule(each, Operation.WRITE, other, who="User:*", pattern=PatternType.PREFIXED) for each in patterns]
    for pattern, name in ((PatternType.PREFIXED, topic[:length]), (PatternType.LITERAL, topic)):
        authorizer = _authorizer(*noise, _rule(name, Operation.WRITE, permission, who="User:*", pattern=pattern))
        assert _may(authorizer, Operation.WRITE, topic) is (permission == Permission.ALLOW)


def test_a_lookup_does_not_read_all_of_thousands_of_rules() -> None:
    rules = [_rule(f"topic-{number}", who=f"User:u{number}") for number in range(5000)]
    rules += [_rule(f"prefix-{number}-", pattern=PatternType.PREFIXED) for number in range(5000)]
    authorizer = _authorizer(*rules)
    assert _may(authorizer, Operation.READ, "prefix-4711-x")
    assert not _may(authorizer, Operation.READ, "topic-4711")
    assert _may(authorizer, Operation.READ, "topic-4711", Principal("User", "u4711"))
    assert len(authorizer.rules_about(Type.TOPIC, "topic-4711")) == 1
