"""Generates the message classes from Kafka's message JSON, one module for each API or record.

Run `python -m tailrace.protocol.generate` when a schema changes. It writes `messages/`, `internal/` (the messages
between our own programs), and `group_records/` and `transaction_records/` (the keys and values that the coordinators of
groups and transactions store). The generated modules are checked in, and a test compares them. The schemas are the JSON
files of the kafka-python package (a development dependency), and those in `schemas/`, which kafka-python lacks. If both
have a schema, `schemas/` wins.
"""

import importlib.resources
import keyword
from pathlib import Path

from tailrace.protocol.internal_apis import INTERNAL_KEY_MIN

from .codec.schema import PRIMITIVES, FieldSchema, MessageSchema, StructSchema, parse, snake_case

PACKAGES = ("messages", "internal", "group_records", "transaction_records")

_SKIPPED = {"RequestHeader", "ResponseHeader"}
"""The headers, whose code is written by hand in `codec/headers.py`: they are decoded before the API is known."""

_HALVES_OF_RECORDS = ("coordinator-key", "coordinator-value")
_TRANSACTION_RECORD = "TransactionLog"
"""How the names of the halves of a transaction's record begin. All other records belong to groups."""

_SHADOWING = {"bool", "bytes", "float", "int", "list", "str"}


def schema_texts() -> dict[str, str]:
    """Returns the JSON text of every message, by the message's name."""
    packaged = importlib.resources.files("kafka.protocol.schemas.resources")
    own = importlib.resources.files("tailrace.protocol").joinpath("schemas")
    return {
        file.name.removesuffix(".json"): file.read_text(encoding="utf-8")
        for directory in (packaged, own)
        for file in directory.iterdir()
        if file.name.endswith(".json") and file.name.removesuffix(".json") not in _SKIPPED
    }


def modules(texts: dict[str, str]) -> dict[str, str]:
    """Returns the source of every module, by its path, for example `messages/fetch`."""
    by_module: dict[str, list[MessageSchema]] = {}
    for name in sorted(texts):
        schema = parse(texts[name])
        by_module.setdefault(f"{_package(schema)}/{_module_name(schema)}", []).append(schema)
    return {module: _module(schemas) for module, schemas in by_module.items()}


def _package(schema: MessageSchema) -> str:
    if schema.kind in _HALVES_OF_RECORDS:
        return "transaction_records" if schema.name.startswith(_TRANSACTION_RECORD) else "group_records"
    return "internal" if (schema.api_key or 0) >= INTERNAL_KEY_MIN else "messages"


def _module_name(schema: MessageSchema) -> str:
    halves = ("Key", "Value") if schema.kind in _HALVES_OF_RECORDS else ("Request", "Response")
    return snake_case(schema.name.removesuffix(halves[0]).removesuffix(halves[1]))


def _module(schemas: list[MessageSchema]) -> str:
    classes: list[str] = []
    known: dict[str, StructSchema] = {}
    for schema in schemas:
        # The records of a request are bytes. The records of a response may be a range of a file.
        names = {"records": "Buffer" if schema.name.endswith("Request") else "Records"}
        for struct in schema.structs:
            name = names[struct.name] = _class_name(struct, schema, names, known)
            if name not in known:
                known[name] = struct
                classes.append(_class(name, struct, names, f"Inside {schema.name}.", []))
        about = f"Versions {schema.versions}, flexible: {schema.flexible}."
        classes.append(_class(schema.name, schema.root, names, about, _message_facts(schema)))
    body = "\n\n".join(classes)
    return f"{_docstring(schemas)}\n\n{_imports(body)}\n\n\n{body}"


def _class_name(
    struct: StructSchema, schema: MessageSchema, names: dict[str, str], known: dict[str, StructSchema]
) -> str:
    """Returns the name of a struct's class. Request and response share a struct that is equal in both; otherwise the
    second one has the message's name as prefix."""
    inside_is_shared = all(names[field.kind] == field.kind for field in struct.fields if field.is_struct)
    if known.get(struct.name, struct) == struct and inside_is_shared:
        return struct.name
    return schema.name + struct.name


def _message_facts(schema: MessageSchema) -> list[str]:
    key = "RECORD_TYPE" if schema.kind in _HALVES_OF_RECORDS else "API_KEY"
    facts = [] if schema.api_key is None else [f"    {key}: ClassVar[int] = {schema.api_key}"]
    facts.append(f'    VERSIONS: ClassVar[str] = "{schema.versions}"')
    facts.append(f'    FLEXIBLE: ClassVar[str] = "{schema.flexible}"')
    return facts


def _docstring(schemas: list[MessageSchema]) -> str:
    names = " and ".join(schema.name for schema in schemas)
    return f'"""{names}, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""'


def _imports(body: str) -> str:
    lines = ["from typing import ClassVar"]
    if "UUID" in body:
        lines.append("from uuid import UUID")
    lines.append("")
    lines.append("from msgspec import Struct, field" if "= field(" in body else "from msgspec import Struct")
    lines.append("")
    lines.append("from tailrace.protocol.codec.fields import Field")
    used = [name for name in ("NO_UUID", "Buffer", "Records") if f" {name} " in body or f" {name}\n" in body]
    if used:
        lines.append(f"from tailrace.protocol.codec.primitives import {', '.join(used)}")
    return "\n".join(lines)


def _class(name: str, struct: StructSchema, names: dict[str, str], about: str, facts: list[str]) -> str:
    lines = [f"class {name}(Struct):", f'    """{about}"""', ""]
    if not struct.fields:
        return "\n".join([*lines, *facts, "    FIELDS: ClassVar[tuple[Field, ...]] = ()"]) + "\n"
    lines += [_attribute(field, names) for field in struct.fields]
    lines += ["", *facts]
    lines.append("    FIELDS: ClassVar[tuple[Field, ...]] = (")
    lines += [f"        {_fact(field, names)}," for field in struct.fields]
    lines.append("    )")
    return "\n".join(lines) + "\n"


def _attribute(field: FieldSchema, names: dict[str, str]) -> str:
    if field.name in _SHADOWING or keyword.iskeyword(field.name):
        raise ValueError(f"a field cannot be called {field.name} in Python")
    kind = _python_type(field, names)
    return f"    {field.name}: {kind} = {_default(field, kind)}"


def _python_type(field: FieldSchema, names: dict[str, str]) -> str:
    kind = names.get(field.kind) or PRIMITIVES[field.kind]
    if field.is_array:
        kind = f"list[{kind}]"
    return f"{kind} | None" if field.nullable != "none" or field.is_absent_as_none else kind


def _default(field: FieldSchema, kind: str) -> str:
    if field.default == "null" or field.is_absent_as_none:
        return "None"
    if field.is_array:
        return "field(default_factory=list)"
    if field.is_struct:
        return f"field(default_factory={kind})"
    match PRIMITIVES[field.kind]:
        case "bool":
            return str((field.default or "false").lower() == "true")
        case "int":
            return str(int(field.default or "0", 0))
        case "float":
            return str(float(field.default or "0"))
        case "str":
            return f'"{field.default or ""}"'
        case "bytes":
            return 'b""'
        case "UUID":
            return "NO_UUID"
        case _:
            return "None"


def _fact(field: FieldSchema, names: dict[str, str]) -> str:
    kind = names[field.kind] if field.is_struct else f'"{field.kind}"'
    arguments = [f'"{field.name}"', kind, f'"{field.versions}"']
    if field.is_array:
        arguments.append("array=True")
    if field.nullable != "none":
        arguments.append(f'nullable="{field.nullable}"')
    if field.tag >= 0:
        arguments.append(f'tag={field.tag}, tagged="{field.tagged}"')
    return f"Field({', '.join(arguments)})"


def main() -> None:
    protocol = Path(__file__).resolve().parent
    sources = modules(schema_texts())
    for package in PACKAGES:
        for path in (protocol / package).glob("*.py"):
            if f"{package}/{path.stem}" not in sources and path.stem != "__init__":
                path.unlink()
    for module, source in sources.items():
        (protocol / f"{module}.py").write_text(source, encoding="utf-8")


if __name__ == "__main__":
    main()
