"""The types of resources, kinds of patterns, operations and permissions of access rules, with Kafka's codes and names.

`ANY` and `MATCH` occur in filters only. Some operations imply others, and each type of resource has its operations.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import TypeVar


class ResourceType(IntEnum):
    """What a rule is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in a rule relates to names of resources."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """In filters: every pattern that the name of a resource matches."""
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What a client does with a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether a rule allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD = "*"
"""Stands for all names, hosts or principals."""
CLUSTER_NAME = "kafka-cluster"
"""The only name of the cluster as a resource."""

_O = Operation
IMPLIED: Mapping[int, frozenset[Operation]] = {
    _O.READ: frozenset({_O.READ, _O.DESCRIBE}),
    _O.WRITE: frozenset({_O.WRITE, _O.DESCRIBE}),
    _O.DELETE: frozenset({_O.DELETE, _O.DESCRIBE}),
    _O.ALTER: frozenset({_O.ALTER, _O.DESCRIBE}),
    _O.ALTER_CONFIGS: frozenset({_O.ALTER_CONFIGS, _O.DESCRIBE_CONFIGS}),
}
"""The operations that a rule allows besides its own. A rule that denies an operation denies no other operation."""

OPERATIONS: Mapping[int, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        _O.READ,
        _O.WRITE,
        _O.CREATE,
        _O.DELETE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}
"""The operations that exist for each type of resource."""

_Code = TypeVar("_Code", bound=IntEnum)


class CodeError(Exception):
    """A text is not a name of a code. The message is one sentence."""


def name_of(code: IntEnum) -> str:
    """Returns Kafka's name of a code, for example `TransactionalId` or `DescribeConfigs`."""
    return "".join(word.capitalize() for word in code.name.split("_"))


def code_of(kind: type[_Code], text: str) -> _Code:
    """Returns the code with a name, in any spelling: `DescribeConfigs`, `describe-configs`. Raises CodeError."""
    wanted = _plain(text)
    usable = [code for code in kind if code.value]
    for code in usable:
        if _plain(code.name) == wanted:
            return code
    names = ", ".join(name_of(code) for code in usable)
    raise CodeError(f"{text!r:.80} is none of {names}")


def _plain(text: str) -> str:
    return text.replace("_", "").replace("-", "").lower()
