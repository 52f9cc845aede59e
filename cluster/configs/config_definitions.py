"""What a config is: its type, default, the values it takes, and where a value that applies comes from.

The texts of values travel in Kafka's requests and lie in the controller's state; they are parsed and checked when they
arrive, and kept in one canonical form, so that later readers cannot fail on them.
"""

import re
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from tailrace.protocol.codec.decoder_source import STRING_BYTES_MAX
from tailrace.protocol.error_codes import ErrorCode, KafkaError

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """By the numbers of DescribeConfigs."""

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
    """Where a value was set, by the numbers of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Rule(Struct, frozen=True):
    """Which values of the right type are allowed; `takes` continues the sentence "it takes …"."""

    takes: str
    permits: Callable[[Value], bool]


class Synonym(Struct, frozen=True):
    """A broker setting that stands behind a topic config, perhaps in a larger unit."""

    name: str
    default: Value = None
    milliseconds: int = 1
    """How many milliseconds one unit is; 1 where there is nothing to convert."""
    type: ConfigType | None = None
    """None: the type of the topic config."""
    read_only: bool = False


class ConfigDefinition(Struct, frozen=True):
    name: str
    type: ConfigType
    default: Value
    documentation: str
    rule: Rule | None = None
    synonyms: tuple[Synonym, ...] = ()
    """Of a topic config: the broker settings that apply where the topic sets nothing, strongest first."""
    honoured: bool = True
    """False: the value is checked and kept for tools that set it, but nothing here depends on it."""
    read_only: bool = False
    """Of a broker config: only settable when the SPU starts. Of a topic config: when the topic is created."""
    sensitive: bool = False
    hidden: bool = False
    """Settable but never listed."""


class ConfiguredValue(NamedTuple):
    """One of the places where a config has a value."""

    name: str
    text: str | None
    source: ConfigSource


# rules


def at_least(low: int) -> Rule:
    return Rule(f"a number of at least {low}", lambda value: isinstance(value, int | float) and value >= low)


def between(low: float, high: float) -> Rule:
    return Rule(
        f"a number from {low:g} to {high:g}", lambda value: isinstance(value, int | float) and low <= value <= high
    )


def one_of(*options: str) -> Rule:
    return Rule(f"one of: {', '.join(options)}", lambda value: value in options)


def some_of(*options: str) -> Rule:
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
    """The value that the text means. Raises KafkaError with a sentence that says what is allowed."""
    if text is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{definition.name}: a value is missing")
    size = len(text.encode(errors="surrogatepass"))
    if size > STRING_BYTES_MAX:  # from our own programs, or in a file: whoever described it could not be answered
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{definition.name}: the value has {size} bytes; none has more than {STRING_BYTES_MAX}",
        )
    value = _read(definition.type, text.strip())
    if value is None or (definition.rule is not None and not definition.rule.permits(value)):
        rule = definition.rule
        takes = rule.takes if rule is not None and value is not None else _TAKES.get(definition.type, "a text")
        given = "the value given" if definition.sensitive else repr(text[:_QUOTED_CHARACTERS_MAX])
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{definition.name}: {given} is not allowed; it takes {takes}")
    return value


def text_of(value: Value) -> str | None:
    """The canonical text of a value: `parse` of it gives the value back."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _read(kind: ConfigType, text: str) -> Value:
    """None where the text is not of the type."""
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
    """The entries, each once, in the order of their first mention; None where one is empty."""
    if not text.strip():
        return ()
    entries = tuple(dict.fromkeys(entry.strip() for entry in text.split(",")))
    return entries if all(entries) else None


def by_name(definitions: Iterable[ConfigDefinition]) -> dict[str, ConfigDefinition]:
    table = {definition.name: definition for definition in definitions}
    return dict(sorted(table.items()))
