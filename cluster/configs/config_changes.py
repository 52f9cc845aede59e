"""Applies the changes of an admin request to the configs of a topic, SPU or group."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .config_definitions import ConfigDefinition, ConfigType, Value, parse, split_list, text_of

_QUOTED_CHARACTERS_MAX = 200


class ResourceKind(IntEnum):
    """The kind of resource that has configs, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """How a config is changed, with the numbers of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(Struct, frozen=True):
    """The change of one config."""

    name: str
    operation: int
    """An `Operation`, unless the client sent an unknown number."""
    text: str | None


class Alteration(Struct, frozen=True):
    """All changes to the configs of one resource."""

    kind: int
    """A `ResourceKind`, unless the client sent an unknown number."""
    name: str
    """The name of a topic, the id of an SPU or group, or an empty text for all SPUs."""
    changes: tuple[ConfigChange, ...]
    replaces_all: bool = False
    """Whether configs that are not named are reset, unless they are read-only."""


def altered(
    own: Mapping[str, str],
    alteration: Alteration,
    definitions: Mapping[str, ConfigDefinition],
    effective: Callable[[ConfigDefinition], Value],
    *,
    keeps_unknown: bool = False,
) -> dict[str, str]:
    """Returns the configs after all changes. Raises KafkaError if a change is impossible; then none may be made.

    If `keeps_unknown`, a config without a definition can be set to any text. Otherwise it is refused.

    Lists are appended to, or subtracted from, the value that applies now, which is what the client sees.
    """
    names = [change.name for change in alteration.changes]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a config is named twice")
    result = {name: text for name, text in own.items() if not alteration.replaces_all or _stays(definitions.get(name))}
    for change in alteration.changes:
        if change.operation == Operation.DELETE:
            result.pop(change.name, None)
            continue
        if change.text is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{change.name[:_QUOTED_CHARACTERS_MAX]}: a value is missing")
        definition = definitions.get(change.name)
        if definition is None and keeps_unknown and change.operation == Operation.SET:
            result[change.name] = change.text
            continue
        if definition is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no config {change.name[:_QUOTED_CHARACTERS_MAX]!r}")
        if change.operation == Operation.SET:
            value = parse(definition, change.text)
        elif change.operation in (Operation.APPEND, Operation.SUBTRACT):
            value = _listed(definition, change, effective(definition))
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{change.name}: there is no operation {change.operation}")
        result[change.name] = text_of(value) or ""
    return result


def _stays(definition: ConfigDefinition | None) -> bool:
    return definition is not None and definition.read_only


def _listed(definition: ConfigDefinition, change: ConfigChange, now: Value) -> Value:
    if definition.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{change.name} is not a list, so entries cannot be appended or subtracted"
        )
    entries = split_list(change.text or "")
    if not entries:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{change.name}: the entries to append or subtract are missing")
    assert isinstance(now, tuple)
    if change.operation == Operation.APPEND:
        return parse(definition, ",".join(now + entries))
    return tuple(entry for entry in now if entry not in entries)


def named_twice(resources: Sequence[tuple[int, str]]) -> frozenset[tuple[int, str]]:
    """Returns the resources that a request names more than once, which makes their changes ambiguous."""
    counted = Counter(resources)
    return frozenset(resource for resource in counted if counted[resource] > 1)
