"""Filters of access rules, as DescribeAcls and DeleteAcls have them, and the check of a rule before it is stored."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.security.identity.principal import PrincipalError, parse_principal
from tailrace.security.records.acl_record import AclRecord

from .acl_codes import CLUSTER_NAME, WILDCARD, Operation, PatternType, Permission, ResourceType, name_of
from .host_patterns import HostError, check_host


class AclFilter(Struct, frozen=True):
    """Selects access rules. None and `ANY` select every value."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    """`MATCH` selects every pattern that the named resource matches."""
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def check(self) -> None:
        """Raises KafkaError if a code is unknown."""
        kinds = {
            "resource type": (ResourceType, self.resource_type),
            "pattern type": (PatternType, self.pattern_type),
            "operation": (Operation, self.operation),
            "permission": (Permission, self.permission),
        }
        for name, (kind, code) in kinds.items():
            if not 0 < code <= max(kind):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"the filter has an unknown {name}")

    def selects(self, rule: AclRecord) -> bool:
        """Whether the filter selects a rule."""
        return (
            self.resource_type in (ResourceType.ANY, rule.resource_type)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
            and self._selects_pattern(rule)
        )

    def _selects_pattern(self, rule: AclRecord) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, rule.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == rule.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if rule.pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(rule.resource_name)
        return rule.resource_name == WILDCARD


def selected(rules: Iterable[AclRecord], chosen: AclFilter) -> Iterator[AclRecord]:
    """Yields the rules that a filter selects."""
    return (rule for rule in rules if chosen.selects(rule))


def check_rule(rule: AclRecord) -> None:
    """Raises KafkaError unless the rule may be stored."""
    problem = _problem(rule)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _problem(rule: AclRecord) -> str | None:
    if not ResourceType.ANY < rule.resource_type <= max(ResourceType):
        return (
            "a rule is about one type of resource: a topic, a group, the cluster, a transactional id, a token, a user"
        )
    if rule.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return "the pattern of a rule is literal or prefixed"
    if not Operation.ANY < rule.operation <= max(Operation):
        return "a rule is about one operation, or about all"
    if rule.permission not in (Permission.ALLOW, Permission.DENY):
        return "a rule allows or denies"
    if not rule.resource_name:
        return "the rule has an empty name of a resource; use * for all"
    if rule.resource_type == ResourceType.CLUSTER and rule.resource_name != CLUSTER_NAME:
        return f"the only name of the cluster as a resource is {CLUSTER_NAME}"
    try:
        parse_principal(rule.principal)
        check_host(rule.host)
    except (PrincipalError, HostError) as error:
        return str(error)
    return None


def text_of_rule(rule: AclRecord) -> str:
    """Says a rule in words: `allow User:bob to read topic orders`."""
    verb = "deny" if rule.permission == Permission.DENY else "allow"
    operation = operation_words(rule.operation)
    host = "" if rule.host == WILDCARD else f" from {rule.host}"
    return f"{verb} {rule.principal} to {operation} {pattern_words(rule)}{host}"


def pattern_words(rule: AclRecord) -> str:
    """Says which resources a rule is about: `topics that begin with order`."""
    kind = resource_words(rule.resource_type)
    if rule.resource_type == ResourceType.CLUSTER:
        return "the cluster"
    if rule.pattern_type == PatternType.PREFIXED:
        return f"{kind}s that begin with {rule.resource_name}"
    return f"all {kind}s" if rule.resource_name == WILDCARD else f"{kind} {rule.resource_name}"


def operation_words(operation: int) -> str:
    """Says an operation as a verb: `describe configs of`."""
    return _VERBS.get(operation) or name_of(Operation(operation)).lower()


def resource_words(resource_type: int) -> str:
    """Says a type of resource: `transactional id`."""
    return ResourceType(resource_type).name.lower().replace("_", " ")


_VERBS: Mapping[int, str] = {
    Operation.ALL: "do everything with",
    Operation.DESCRIBE_CONFIGS: "describe configs of",
    Operation.ALTER_CONFIGS: "alter configs of",
    Operation.CLUSTER_ACTION: "act as a broker of",
    Operation.IDEMPOTENT_WRITE: "write idempotently to",
    Operation.CREATE_TOKENS: "create tokens for",
    Operation.DESCRIBE_TOKENS: "describe tokens of",
    Operation.TWO_PHASE_COMMIT: "commit in two phases with",
    Operation.WRITE: "write",
}
