"""The definition of a config: its type, default and allowed values, and the sources of its value.

Values are texts in Kafka's requests and in the controller's state. They are parsed and checked when they arrive, and
kept in a canonical form, so that later readers cannot fail on them.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from tailrace.protocol.codec.decoder_source import STRING_BYTES_MAX
from tailrace.protocol.error_codes import ErrorCode, KafkaError

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The type of a config, with the numbers of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value was set, with the numbers of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Rule(Struct, frozen=True):
    """A rule for the allowed values of the right type."""

    takes: str
    """The end of the sentence "it takes …"."""
    permits: Callable[[Value], bool]


class Synonym(Struct, frozen=True):
    """A broker config that is the default of a topic config or group config, perhaps in a larger unit."""

    name: str
    default: Value = None
    milliseconds: int = 1
    """The number of milliseconds in a unit; 1 if there is nothing to convert."""
    type: ConfigType | None = None
    """The type; None if it is that of the topic config."""
    read_only: bool = False


class ConfigDefinition(Struct, frozen=True):
    """A config that topics, brokers or groups may have."""

    name: str
    type: ConfigType
    default: Value
    documentation: str
    rule: Rule | None = None
    synonyms: tuple[Synonym, ...] = ()
    """The broker configs that apply to a topic or group that does not set this config, the strongest first."""
    honoured: bool = True
    """Whether the value has an effect; if not, it is only checked and kept for tools that set it."""
    read_only: bool = False
    """Whether a broker config can be set only at the start of the SPU, or a topic config only when it is created."""
    sensitive: bool = False
    """Whether the value is never shown."""
    hidden: bool = False
    """Whether the config can be set but is never listed."""


def foreign_definition(name: str) -> ConfigDefinition:
    """Returns the definition of a broker config that Kafka's tools have set and Tailrace does not know.

    As in Kafka, its value is never shown: it may be a secret of a plug-in.
    """
    return ConfigDefinition(
        name,
        ConfigType.UNKNOWN,
        None,
        "Tailrace does not know this config.",
        honoured=False,
        read_only=True,
        sensitive=True,
    )


def without_effect(names: Iterable[str], table: Mapping[str, ConfigDefinition]) -> list[str]:
    """Returns the configs that may be set, because tools set them, but change nothing."""
    return [name for name in names if name in table and not table[name].honoured]


class ConfiguredValue(NamedTuple):
    """The value of a config in one of the places where it is set."""

    name: str
    text: str | None
    source: ConfigSource


# rules


def at_least(low: int) -> Rule:
    """Allows numbers from `low` on."""
    return Rule(f"a number of at least {low}", lambda value: isinstance(value, int | float) and value >= low)


def between(low: float, high: float) -> Rule:
    """Allows numbers from `low` to `high`, both included."""
    return Rule(
        f"a number from {low:g} to {high:g}", lambda value: isinstance(value, int | float) and low <= value <= high
    )


def one_of(*options: str) -> Rule:
    """Allows one of the texts."""
    return Rule(f"one of: {', '.join(options)}", lambda value: value in options)


def some_of(*options: str) -> Rule:
    """Allows lists of some of the texts."""
    return Rule(
        f"a comma-separated list of: {', '.join(options)}",
        lambda value: isinstance(value, tuple) and all(entry in options for entry in value),
    )


# texts and values

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL_NUMBER = re.compile(r"[+-]?([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")
_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_TAKES = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.SHORT: "a whole number of 16 bits",
    ConfigType.INT: "a whole number of 32 bits",
    ConfigType.LONG: "a whole number of 64 bits",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a comma-separated list without empty entries",
}
_QUOTED_CHARACTERS_MAX = 200


def parse(definition: ConfigDefinition, text: str | None) -> Value:
    """Reads a value. Raises KafkaError, with a sentence that says what is allowed."""
    if text is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{definition.name}: a value is missing")
    size = len(text.encode(errors="surrogatepass"))
    if size > STRING_BYTES_MAX:  # it came in a private message or a file, and would not fit into a Kafka response
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{definition.name}: the value has {size} bytes; at most {STRING_BYTES_MAX} are allowed",
        )
    value = _read(definition.type, text.strip())
    if value is None or (definition.rule is not None and not definition.rule.permits(value)):
        rule = definition.rule
        takes = rule.takes if rule is not None and value is not None else _TAKES.get(definition.type, "a text")
        given = "the value given" if definition.sensitive else repr(text[:_QUOTED_CHARACTERS_MAX])
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{definition.name}: {given} is not allowed; it takes {takes}")
    return value


def text_of(value: Value) -> str | None:
    """Returns the canonical text of a value, from which `parse` returns the value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _read(kind: ConfigType, text: str) -> Value:
    """Reads a value of a type; returns None if the text has another type."""
    if kind is ConfigType.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower())
    if kind in _BITS:
        if _WHOLE_NUMBER.fullmatch(text) is None:
            return None
        number = int(text)
        limit = 1 << (_BITS[kind] - 1)
        return number if -limit <= number < limit else None
    if kind is ConfigType.DOUBLE:
        return float(text) if _DECIMAL_NUMBER.fullmatch(text) is not None else None
    if kind is ConfigType.LIST:
        return split_list(text)
    return text


def split_list(text: str) -> tuple[str, ...] | None:
    """Returns the entries of a list without repetitions, in their order; None if an entry is empty."""
    if not text.strip():
        return ()
    entries = tuple(dict.fromkeys(entry.strip() for entry in text.split(",")))
    return entries if all(entries) else None


def by_name(definitions: Iterable[ConfigDefinition]) -> dict[str, ConfigDefinition]:
    """Returns a table of definitions, in the order of their names."""
    table = {definition.name: definition for definition in definitions}
    return dict(sorted(table.items()))
