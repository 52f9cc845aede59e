"""Decides whether a principal may do something with a resource, as Kafka's StandardAuthorizer does, and says why.

- A rule that denies wins over every rule that allows. Without a matching rule the answer is no; with
  `allow.everyone.if.no.acl.found` it is yes, unless some rule is about the resource, for whichever principal.
- Super users may do everything. So may our own servers, which prove their identity to each other.
- A lookup reads the rules of the principal and of all principals for the name and for each prefix length that occurs.
  It does not depend on the number of rules.
- Decisions are cached until a record changes. A change of a few rules among many updates the index only there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from msgspec import Struct

from tailrace.security.identity.principal import SERVER, Principal
from tailrace.security.records.acl_record import AclRecord

from .acl_codes import IMPLIED, OPERATIONS, WILDCARD, Operation, PatternType, Permission
from .host_patterns import host_matches

EVERYBODY = "User:*"
"""The principal of rules for all users."""
CACHED_MAX = 20_000
"""How many decisions are cached. They are forgotten together when there are more."""
REMEMBERED_CHARACTERS_MAX = 255
"""The longest name of a resource whose decision is remembered.

Clients may ask for names of 32 KB that do not exist. Names of topics are shorter, and so are most others.
"""
_ANY_NAME = "hardcode"
"""The name with which Kafka asks whether a principal may do something with every resource of a type."""


class Reason(Enum):
    """Why a request is allowed or denied."""

    SERVER = "a server of this cluster"
    SUPER_USER = "a super user"
    RULE = "a rule"
    NO_RULE_ABOUT_RESOURCE = "no rule is about the resource"
    NO_RULE_ALLOWS = "no rule allows it"


class Decision(NamedTuple):
    """Whether a request is allowed, and why."""

    allowed: bool
    reason: Reason
    rule: AclRecord | None = None
    """The rule that decided; None if no single rule did."""


class RulesSource(Protocol):
    """The part of `SecurityTables` that an authorizer reads."""

    @property
    def acls(self) -> Mapping[str, AclRecord]: ...

    @property
    def version(self) -> int: ...


class _Rules(Struct):
    """The rules of one principal for one type of resource."""

    literal: dict[str, list[AclRecord]]
    prefixed: dict[str, list[AclRecord]]
    lengths: Counter[int]
    """How many prefixes have each length."""


class Authorizer:
    """Decides with the rules in `source`. Every decision is that of the rules which `source` has at the moment."""

    def __init__(
        self, source: RulesSource, super_users: Iterable[str] = (), *, allows_everyone_without_rule: bool = False
    ) -> None:
        self.source = source
        self.super_users = frozenset(super_users)
        self._default = allows_everyone_without_rule
        self._version = -1
        """The version of the source at which the index was made."""
        self._known: dict[str, AclRecord] = {}
        """The rules in the index."""
        self._index: dict[tuple[int, str], _Rules] = {}
        """The rules by type of resource and principal."""
        self._patterns: dict[int, _Rules] = {}
        """The rules of all principals, by type of resource."""
        self._cache: dict[tuple[Principal, str, int, int, str], Decision] = {}
        self._kinds_cache: dict[tuple[Principal, str, int, int], bool] = {}

    @property
    def version(self) -> int:
        """A number that changes whenever a decision may change."""
        return self.source.version

    def is_unlimited(self, principal: Principal) -> bool:
        """Whether the principal may do everything, whatever the rules say."""
        return principal.kind == SERVER or str(principal) in self.super_users

    def decide(
        self, principal: Principal, host: str, operation: int, resource_type: int, resource_name: str
    ) -> Decision:
        """Decides whether `principal` may do the operation with the resource, coming from `host`."""
        if self._version != self.source.version:
            self._update()
        key = (principal, host, operation, resource_type, resource_name)
        decision = self._cache.get(key)
        if decision is None:
            decision = self._decide(*key)
            if len(resource_name) > REMEMBERED_CHARACTERS_MAX:
                return decision
            if len(self._cache) >= CACHED_MAX:
                self._cache.clear()
            self._cache[key] = decision
        return decision

    def allows(self, principal: Principal, host: str, operation: int, resource_type: int, resource_name: str) -> bool:
        """Whether `principal` may do the operation with the resource, coming from `host`."""
        return self.decide(principal, host, operation, resource_type, resource_name).allowed

    def allows_some(self, principal: Principal, host: str, operation: int, resource_type: int) -> bool:
        """Whether `principal` may do the operation with at least one resource of the type, existing or not.

        As in Kafka's `authorizeByResourceType`, only rules for the operation itself or for all operations count.
        """
        if self._version != self.source.version:
            self._update()
        key = (principal, host, operation, resource_type)
        allowed = self._kinds_cache.get(key)
        if allowed is None:
            allowed = self._allows_some(*key)
            if len(self._kinds_cache) >= CACHED_MAX:
                self._kinds_cache.clear()
            self._kinds_cache[key] = allowed
        return allowed

    def allowed_operations(self, principal: Principal, host: str, resource_type: int, resource_name: str) -> int:
        """Returns the operations that `principal` may do with the resource, as the bits that responses have."""
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if self.allows(principal, host, operation, resource_type, resource_name)
        )

    def rules_about(self, resource_type: int, resource_name: str) -> list[AclRecord]:
        """Returns the rules of all principals whose pattern matches the resource."""
        if self._version != self.source.version:
            self._update()
        rules = self._patterns.get(resource_type)
        return [] if rules is None else list(_matching(rules, resource_name))

    # decisions

    def _decide(
        self, principal: Principal, host: str, operation: int, resource_type: int, resource_name: str
    ) -> Decision:
        if principal.kind == SERVER:
            return Decision(True, Reason.SERVER)
        text = str(principal)
        if text in self.super_users:
            return Decision(True, Reason.SUPER_USER)
        allowing: AclRecord | None = None
        for rule in self._rules_of(text, resource_type, resource_name):
            if _applies(rule, host, operation):
                if rule.permission == Permission.DENY:
                    return Decision(False, Reason.RULE, rule)
                allowing = allowing or rule
        if allowing is not None:
            return Decision(True, Reason.RULE, allowing)
        everybody = self._patterns.get(resource_type)
        if everybody is None or next(_matching(everybody, resource_name), None) is None:
            return Decision(self._default, Reason.NO_RULE_ABOUT_RESOURCE)
        return Decision(False, Reason.NO_RULE_ALLOWS)

    def _rules_of(self, principal: str, resource_type: int, resource_name: str) -> Iterator[AclRecord]:
        for name in dict.fromkeys((principal, EVERYBODY)):
            rules = self._index.get((resource_type, name))
            if rules is not None:
                yield from _matching(rules, resource_name)

    def _allows_some(self, principal: Principal, host: str, operation: int, resource_type: int) -> bool:
        if self.allows(principal, host, operation, resource_type, _ANY_NAME):
            return True
        allowing: list[AclRecord] = []
        denied_names: set[str] = set()
        denied_prefixes: set[str] = set()
        for name in dict.fromkeys((str(principal), EVERYBODY)):
            rules = self._index.get((resource_type, name))
            for rule in () if rules is None else _all(rules):
                if rule.operation not in (operation, Operation.ALL) or not host_matches(rule.host, host):
                    continue
                if rule.permission == Permission.ALLOW:
                    allowing.append(rule)
                elif rule.pattern_type == PatternType.PREFIXED:
                    denied_prefixes.add(rule.resource_name)
                elif rule.resource_name == WILDCARD:
                    return False
                else:
                    denied_names.add(rule.resource_name)
        lengths = sorted({len(prefix) for prefix in denied_prefixes})

        def is_denied(rule: AclRecord) -> bool:
            if rule.pattern_type == PatternType.LITERAL:
                if rule.resource_name == WILDCARD:
                    return False
                if rule.resource_name in denied_names:
                    return True
            name = rule.resource_name
            return any(length <= len(name) and name[:length] in denied_prefixes for length in lengths)

        return any(not is_denied(rule) for rule in allowing)

    # the index

    def _update(self) -> None:
        """Brings the index to the version of the source."""
        acls = self.source.acls
        self._version = self.source.version
        if self._known.keys() == acls.keys():
            return  # something else than a rule has changed
        for key in self._known.keys() - acls.keys():
            rule = self._known.pop(key)
            _take(self._index[rule.resource_type, rule.principal], rule)
            _take(self._patterns[rule.resource_type], rule)
        for key in acls.keys() - self._known.keys():
            rule = self._known[key] = acls[key]
            _put(self._index.setdefault((rule.resource_type, rule.principal), _no_rules()), rule)
            _put(self._patterns.setdefault(rule.resource_type, _no_rules()), rule)
        self._cache.clear()
        self._kinds_cache.clear()


def _no_rules() -> _Rules:
    return _Rules({}, {}, Counter())


def _put(rules: _Rules, rule: AclRecord) -> None:
    if rule.pattern_type == PatternType.PREFIXED:
        if rule.resource_name not in rules.prefixed:
            rules.lengths[len(rule.resource_name)] += 1
        rules.prefixed.setdefault(rule.resource_name, []).append(rule)
    else:
        rules.literal.setdefault(rule.resource_name, []).append(rule)


def _take(rules: _Rules, rule: AclRecord) -> None:
    is_prefix = rule.pattern_type == PatternType.PREFIXED
    named = rules.prefixed if is_prefix else rules.literal
    named[rule.resource_name].remove(rule)
    if not named[rule.resource_name]:
        del named[rule.resource_name]
        if is_prefix:
            length = len(rule.resource_name)
            rules.lengths[length] -= 1
            if not rules.lengths[length]:
                del rules.lengths[length]


def _matching(rules: _Rules, name: str) -> Iterator[AclRecord]:
    """Yields the rules whose pattern matches the name of a resource."""
    yield from rules.literal.get(name, ())
    if name != WILDCARD:
        yield from rules.literal.get(WILDCARD, ())
    for length in rules.lengths:
        if length <= len(name):
            yield from rules.prefixed.get(name[:length], ())


def _all(rules: _Rules) -> Iterator[AclRecord]:
    for named in (rules.literal, rules.prefixed):
        for each in named.values():
            yield from each


def _applies(rule: AclRecord, host: str, operation: int) -> bool:
    """Whether a rule about the resource and for the principal is also about the operation and the host."""
    if rule.operation not in (operation, Operation.ALL) and (
        rule.permission != Permission.ALLOW or operation not in IMPLIED.get(rule.operation, ())
    ):
        return False
    return host_matches(rule.host, host)
