"""Decodes values in JSON by a schema of Spark.

Fields that the schema does not name are left out, and fields that a value lacks are null. A field that is declared NOT
NULL must be there. Types are checked strictly: a number is no text, and a text is no number, except that decimals may
be texts.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Required, TypedDict, cast

import msgspec
import pyarrow as pa
from msgspec import Meta

from .value_errors import SchemaError, UnfitError

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_DECIMAL_DIGITS_MAX = 38


def _integer(bits: int) -> Any:
    return Annotated[int, Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]


_SIMPLE: Mapping[str, tuple[Any, Any]] = {
    "string": (pa.string(), str),
    "boolean": (pa.bool_(), bool),
    "byte": (pa.int8(), _integer(8)),
    "short": (pa.int16(), _integer(16)),
    "integer": (pa.int32(), _integer(32)),
    "long": (pa.int64(), _integer(64)),
    "float": (pa.float32(), float),
    "double": (pa.float64(), float),
    "binary": (pa.binary(), bytes),
    "date": (pa.date32(), date),
    "timestamp": (pa.timestamp("us", tz="UTC"), datetime),
    "timestamp_ntz": (pa.timestamp("us"), Annotated[datetime, Meta(tz=False)]),
}
"""The types of Spark: the type of Arrow, and the type that a value must have. Bytes are in base64."""


class JsonDecoder:
    """Decodes values in JSON."""

    def __init__(self, schema: str) -> None:
        """Takes a schema of Spark in JSON. Raises SchemaError."""
        try:
            document = json.loads(schema)
        except ValueError as error:
            raise SchemaError(f"the schema is no JSON: {error}") from None
        if not isinstance(document, dict) or document.get("type") != "struct":
            raise SchemaError("the schema of values is a struct: name its fields, such as `id BIGINT, name STRING`")
        self.type, expected = _struct(document, "")
        self._decode: Callable[[bytes], object] = msgspec.json.Decoder(expected).decode

    def decode(self, value: bytes) -> object:
        """Returns the value as a dictionary. Raises UnfitError."""
        try:
            return self._decode(value)
        except (ValueError, RecursionError) as error:
            raise UnfitError(str(error)) from None


def _types(given: object, path: str) -> tuple[Any, Any]:
    """Returns the type of Arrow, and the type that msgspec expects."""
    if isinstance(given, str):
        if given in _SIMPLE:
            return _SIMPLE[given]
        if (found := _DECIMAL.fullmatch(given)) is not None:
            precision, scale = int(found[1]), int(found[2])
            if 1 <= precision <= _DECIMAL_DIGITS_MAX and 0 <= scale <= precision:
                return pa.decimal128(precision, scale), Decimal
    if isinstance(given, dict):
        kind = given.get("type")
        if kind == "struct":
            return _struct(given, path)
        if kind == "array":
            arrow, expected = _types(given.get("elementType"), f"{path}[]")
            return pa.list_(pa.field("element", arrow)), list[expected | None]  # type: ignore[valid-type]
        if kind == "map":
            if given.get("keyType") != "string":
                raise SchemaError(f"{path}: the keys of a map in JSON are texts, so its type is MAP<STRING, …>")
            arrow, expected = _types(given.get("valueType"), f"{path}{{}}")
            return pa.map_(pa.string(), arrow), dict[str, expected | None]  # type: ignore[valid-type]
    raise SchemaError(f"{path}: values in JSON cannot have the type {given}: it may be {', '.join(_SIMPLE)}, "
                      "decimal, array, map or struct")  # fmt: skip


def _struct(given: Mapping[str, Any], path: str) -> tuple[Any, Any]:
    fields, expected = [], {}
    for field in given.get("fields") or []:
        name = str(field["name"])
        if name in expected:
            raise SchemaError(f"{path or 'the schema'} has two fields {name}")
        arrow, kind = _types(field["type"], f"{path}.{name}" if path else name)
        fields.append(pa.field(name, arrow))
        expected[name] = (kind | None) if field.get("nullable", True) else Required[kind]
    if not fields:
        raise SchemaError(f"{path or 'the schema'} has no fields")
    # The names are known only now, which the checker of types does not allow for.
    dictionary = cast("Callable[..., Any]", TypedDict)
    return pa.struct(fields), dictionary("Value", expected, total=False)
