"""Formats configs as tables and documents, and knows the words for their sources and types."""

import textwrap
from collections.abc import Sequence

from tailrace.cli.output.printing import plain
from tailrace.cli.output.tables import table
from tailrace.client.admin_client import Config

DYNAMIC_TOPIC = 1
DYNAMIC_BROKER = 2
DYNAMIC_DEFAULT_BROKER = 3
STATIC_BROKER = 4
DEFAULT = 5
DYNAMIC_GROUP = 8
SOURCES = {
    DYNAMIC_TOPIC: "topic",
    DYNAMIC_BROKER: "broker",
    DYNAMIC_DEFAULT_BROKER: "cluster default",
    STATIC_BROKER: "start of the broker",
    DEFAULT: "default",
    7: "client metrics",
    DYNAMIC_GROUP: "group",
}
"""Where a value comes from, by Kafka's numbers."""
_TYPES = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
_TEXT_COLUMNS = 100


def source_of(number: int) -> str:
    """Returns the words for the source of a value."""
    return SOURCES.get(number, f"source {number}")


def shown_value(config: Config) -> str:
    """Returns the value as people see it."""
    if config.is_sensitive:
        return "(hidden)"
    return "(none)" if config.value is None else config.value


def config_table(configs: Sequence[Config]) -> str:
    """Formats configs, one in each row."""
    rows = [
        (each.name, shown_value(each), source_of(each.source), "no" if each.is_read_only else "yes") for each in configs
    ]
    return table(("CONFIG", "VALUE", "SOURCE", "CAN CHANGE"), rows)


def explained(config: Config) -> str:
    """Explains one config: value, source, type, documentation, and the other places that could give it a value."""
    lines = [f"{config.name} = {shown_value(config)}"]
    lines.append(f"  from: {source_of(config.source)}; type: {_TYPES.get(config.type, 'unknown')}")
    if config.is_read_only:
        lines.append("  it cannot be changed while the broker runs")
    others = [each for each in config.synonyms if each.source != config.source]
    lines += [f"  without that: {each.value} ({source_of(each.source)}, {each.name})" for each in others]
    if config.documentation:
        lines += textwrap.wrap(plain(config.documentation), _TEXT_COLUMNS, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def document_of(config: Config) -> dict[str, object]:
    """Returns a config for programs."""
    return {
        "name": config.name,
        "value": None if config.is_sensitive else config.value,
        "source": source_of(config.source),
        "type": _TYPES.get(config.type, "unknown"),
        "readOnly": config.is_read_only,
        "sensitive": config.is_sensitive,
        "documentation": config.documentation,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": source_of(each.source)} for each in config.synonyms
        ],
    }
