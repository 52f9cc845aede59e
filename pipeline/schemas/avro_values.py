"""Decodes values in Avro, also with the five bytes before them by which a schema registry tells schemas apart."""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Protocol

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException

from .value_errors import SchemaError, UnfitError

_SIMPLE: Mapping[str, Any] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], Any] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
"""The logical types that the column keeps. All others, such as uuid, become the type below them."""
_DECIMAL_DIGITS_MAX = 38
_MAGIC = 0
_FRAME_BYTES = 5


class NumberedSchema(Protocol):
    """A schema of Avro, and the number that a registry has given it."""

    @property
    def content(self) -> str: ...
    @property
    def id(self) -> int | None: ...


class AvroDecoder:
    """Decodes values in Avro."""

    def __init__(self, schemas: Sequence[NumberedSchema], *, is_framed: bool) -> None:
        """Takes the schemas. The last one is that of the column. Raises SchemaError."""
        parsed = [_parsed(each.content) for each in schemas]
        self._reader = parsed[-1]
        self._is_framed = is_framed
        self._writers = {each.id: schema for each, schema in zip(schemas, parsed, strict=True)}
        if not isinstance(self._reader, dict) or self._reader.get("type") != "record":
            raise SchemaError("the schema of values in Avro is a record")
        self.type = _arrow_type(self._reader, {}, "")

    def decode(self, value: bytes) -> object:
        """Returns the value as a dictionary. Raises UnfitError."""
        writer, start = self._writer_of(value) if self._is_framed else (self._reader, 0)
        content = BytesIO(value)
        content.seek(start)
        try:
            found = fastavro.schemaless_reader(content, writer, self._reader)
        except (EOFError, IndexError):
            raise UnfitError("the value ends before the record does, or is no Avro of this schema") from None
        except Exception as error:  # fastavro raises errors of many kinds for content that is no Avro
            raise UnfitError(f"{type(error).__name__}: {error}") from None
        if content.tell() != len(value):
            raise UnfitError(f"{len(value) - content.tell()} bytes follow the record")
        return found

    def _writer_of(self, value: bytes) -> tuple[Any, int]:
        if len(value) < _FRAME_BYTES or value[0] != _MAGIC:
            raise UnfitError("the value does not begin with the id of a schema in a registry")
        number = int.from_bytes(value[1:_FRAME_BYTES], "big")
        if number not in self._writers:
            raise UnfitError(f"the value has the schema {number} of the registry, which is not given")
        return self._writers[number], _FRAME_BYTES


def _parsed(content: str) -> Any:
    try:
        document = json.loads(content)
    except ValueError as error:
        raise SchemaError(f"the schema is no JSON: {error}") from None
    try:
        return fastavro.parse_schema(_without_other_logical_types(document))
    except (SchemaParseException, KeyError, ValueError, TypeError) as error:
        raise SchemaError(f"the schema is no schema of Avro: {error}") from None


def _without_other_logical_types(given: Any) -> Any:
    """Removes the logical types that the column does not keep, so that values are decoded as the types below."""
    if isinstance(given, list):
        return [_without_other_logical_types(each) for each in given]
    if not isinstance(given, dict):
        return given
    logical = given.get("logicalType")
    keeps = logical is None or (given.get("type"), logical) in _LOGICAL or _is_decimal(given)
    return {
        name: _without_other_logical_types(each) if name in ("type", "items", "values", "fields") else each
        for name, each in given.items()
        if keeps or name != "logicalType"
    }


def _is_decimal(given: Mapping[str, Any]) -> bool:
    precision = given.get("precision")
    return (
        given.get("logicalType") == "decimal"
        and given.get("type") in ("bytes", "fixed")
        and isinstance(precision, int)
        and 1 <= precision <= _DECIMAL_DIGITS_MAX
    )


def _arrow_type(given: Any, names: dict[str, Any], path: str) -> Any:
    """Returns the type of Arrow. `names` has the named types that were seen, with None for those not yet complete."""
    if isinstance(given, str):
        if given in _SIMPLE:
            return _SIMPLE[given]
        if given == "null":
            raise SchemaError(f"{path}: null alone is no type of a column")
        if names.get(given) is None:
            raise SchemaError(f"{path}: the type {given} contains itself, and a column cannot")
        return names[given]
    if isinstance(given, list):
        return _union_type(given, names, path)
    kind = given["type"]
    if isinstance(kind, (dict, list)):
        return _arrow_type(kind, names, path)
    if _is_decimal(given):
        found = pa.decimal128(given["precision"], given.get("scale", 0))
    elif (kind, given.get("logicalType")) in _LOGICAL:
        found = _LOGICAL[kind, given["logicalType"]]
    elif kind in ("record", "error"):
        names[given["name"]] = None
        if not given["fields"]:
            raise SchemaError(f"{path or given['name']} has no fields, and a column cannot be empty")
        found = pa.struct(
            [
                pa.field(each["name"], _arrow_type(each["type"], names, f"{path}.{each['name']}".lstrip(".")))
                for each in given["fields"]
            ]
        )
    elif kind == "array":
        return pa.list_(pa.field("element", _arrow_type(given["items"], names, f"{path}[]")))
    elif kind == "map":
        return pa.map_(pa.string(), _arrow_type(given["values"], names, f"{path}{{}}"))
    elif kind == "enum":
        found = pa.string()
    elif kind == "fixed":
        found = pa.binary()
    else:
        return _arrow_type(kind, names, path)
    if "name" in given:
        names[given["name"]] = found
    return found


def _union_type(given: Sequence[Any], names: dict[str, Any], path: str) -> Any:
    """Returns the type of a union with null. Other unions have no column of one type."""
    others = [each for each in given if each != "null"]
    if len(others) != 1:
        raise SchemaError(f"{path}: a union may have null and one other type, because a column has one type")
    return _arrow_type(others[0], names, path)
