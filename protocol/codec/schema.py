"""Reads Kafka's message JSON: the facts about a message and its fields.

It is used to generate the message classes and to test them, but never by a running broker.
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
"""Kafka's primitive types, and the Python type of each."""


class FieldSchema(Struct, frozen=True):
    """One field as the JSON describes it."""

    name: str
    kind: str
    """A primitive or the name of a struct: the type of the field, or of its elements if it is an array."""
    is_array: bool
    versions: str
    nullable: str
    tag: int
    tagged: str
    default: str | None
    """The default as the JSON writes it; None if the JSON has none."""

    @property
    def is_struct(self) -> bool:
        return self.kind not in PRIMITIVES

    @property
    def is_absent_as_none(self) -> bool:
        """Whether an absent field is None. That is so for a tagged struct."""
        return self.is_struct and not self.is_array and self.tag >= 0


class StructSchema(Struct, frozen=True):
    """A struct inside a message."""

    name: str
    fields: tuple[FieldSchema, ...]


class MessageSchema(Struct, frozen=True):
    """A message as the JSON describes it."""

    name: str
    kind: str
    """`request`, `response`, `data` (inside other messages), or a half of a record: `coordinator-key`,
    `coordinator-value`."""
    api_key: int | None
    """The API key; None for data. For a half of a record it is the record's type, which stands before the key."""
    versions: str
    flexible: str
    root: StructSchema
    structs: tuple[StructSchema, ...]
    """The structs inside the message. Each comes after those that it contains."""


def parse(text: str) -> MessageSchema:
    """Reads the JSON of one message."""
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
    """Turns `MaxWaitMs` into `max_wait_ms`."""
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
