"""Reads Kafka's message JSON: the facts about a message and its fields, nothing else.

Used when the message classes are generated and when they are tested, never by a running broker.
"""

import json
import re
from typing import Any

from msgspec import Struct

PRIMITIVES = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "uint32": "int",
    "int64": "int",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "Buffer",
    "uuid": "UUID",
}
"""Kafka's primitive types, and what holds a value of each in Python."""


class FieldSchema(Struct, frozen=True):
    name: str
    kind: str
    """A primitive, or the name of a struct; of the elements, when the field is an array."""
    is_array: bool
    versions: str
    nullable: str
    tag: int
    tagged: str
    default: str | None
    """As the JSON writes it; None when it says nothing."""

    @property
    def is_struct(self) -> bool:
        return self.kind not in PRIMITIVES

    @property
    def is_absent_as_none(self) -> bool:
        """A tagged struct that is left out is None rather than a struct of defaults."""
        return self.is_struct and not self.is_array and self.tag >= 0


class StructSchema(Struct, frozen=True):
    name: str
    fields: tuple[FieldSchema, ...]


class MessageSchema(Struct, frozen=True):
    name: str
    kind: str
    """`request`, `response`, `data` inside other messages, or half a record: `coordinator-key`, `coordinator-value`."""
    api_key: int | None
    """None for data; of a record it is the type, which stands in front of the key."""
    versions: str
    flexible: str
    root: StructSchema
    structs: tuple[StructSchema, ...]
    """The structs inside, each after those it is made of."""


def parse(text: str) -> MessageSchema:
    document = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    structs: dict[str, StructSchema] = {}
    common = {struct["name"]: struct["fields"] for struct in document.get("commonStructs", [])}
    root = _struct(document["name"], document["fields"], common, structs)
    return MessageSchema(
        name=document["name"],
        kind=document.get("type", "data"),
        api_key=document.get("apiKey"),
        versions=document["validVersions"],
        flexible=document.get("flexibleVersions", "none"),
        root=root,
        structs=tuple(structs.values()),
    )


def snake_case(name: str) -> str:
    """`MaxWaitMs` to `max_wait_ms`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _struct(
    name: str, fields: list[dict[str, Any]], common: dict[str, list[dict[str, Any]]], structs: dict[str, StructSchema]
) -> StructSchema:
    parsed = []
    for field in fields:
        schema = _field(field)
        parsed.append(schema)
        if schema.is_struct and schema.kind not in structs:
            inside = field["fields"] if "fields" in field else common[schema.kind]
            structs[schema.kind] = _struct(schema.kind, inside, common, structs)
    return StructSchema(name, tuple(parsed))


def _field(field: dict[str, Any]) -> FieldSchema:
    default = field.get("default")
    tagged = str(field.get("taggedVersions", "none"))
    return FieldSchema(
        name=snake_case(field["name"]),
        kind=field["type"].removeprefix("[]"),
        is_array=field["type"].startswith("[]"),
        versions=field["versions"],
        nullable=str(field.get("nullableVersions", "none")),
        tag=field["tag"] if tagged != "none" else -1,
        tagged=tagged,
        default=None if default is None else str(default),
    )
