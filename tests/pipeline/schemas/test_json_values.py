"""Tests which values in JSON fit a schema of Spark."""

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from tailrace.pipeline.schemas.json_values import JsonDecoder  # noqa: E402
from tailrace.pipeline.schemas.value_errors import SchemaError, UnfitError  # noqa: E402


def _field(name: str, kind: object, *, nullable: bool = True) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {}}


def _decoder(*fields: dict[str, object]) -> JsonDecoder:
    return JsonDecoder(json.dumps({"type": "struct", "fields": fields}))


def test_every_type_of_spark_has_a_column() -> None:
    simple = ("string", "boolean", "byte", "short", "integer", "long", "float", "double", "binary", "date",
              "timestamp", "timestamp_ntz", "decimal(9,2)")  # fmt: skip
    nested = _field("s", {"type": "struct", "fields": [_field("x y", "long")]})
    array = _field("a", {"type": "array", "elementType": "integer", "containsNull": True})
    mapping = _field("m", {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True})
    decoder = _decoder(*(_field(f"f{number}", kind) for number, kind in enumerate(simple)), nested, array, mapping)
    value = (
        b'{"f0":"a","f1":true,"f2":-128,"f3":1,"f4":2,"f5":9223372036854775807,"f6":1.5,"f7":3,"f8":"AAE=",'
        b'"f9":"2026-01-31","f10":"2026-01-31T12:00:00Z","f11":"2026-01-31T12:00:00","f12":1.25,'
        b'"s":{"x y":7},"a":[1,null],"m":{"k":0.5},"unknown":[]}'
    )
    (found,) = pa.array([decoder.decode(value)], decoder.type).to_pylist()
    assert list(found.values())[:9] == ["a", True, -128, 1, 2, 2**63 - 1, 1.5, 3.0, b"\x00\x01"]
    assert found["f9"] == datetime.date(2026, 1, 31)
    assert found["f10"] == datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    assert found["f11"] == datetime.datetime(2026, 1, 31, 12)
    assert (found["f12"], found["s"], found["a"], found["m"]) == (Decimal("1.25"), {"x y": 7}, [1, None], [("k", 0.5)])


def test_a_field_that_is_missing_is_null() -> None:
    decoder = _decoder(_field("id", "long"), _field("name", "string"))
    assert pa.array([decoder.decode(b'{"id":1}')], decoder.type).to_pylist() == [{"id": 1, "name": None}]
    assert pa.array([decoder.decode(b'{"id":null}')], decoder.type).to_pylist() == [{"id": None, "name": None}]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "truncated"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"id":"1"}', "Expected `int`, got `str` - at `$.id`"),
        (b'{"id":200}', "Expected `int` <= 127"),
        (b'{"id":null}', "Expected `int`, got `null`"),
        (b'{"name":"x"}', "missing required field `id`"),
        (b'{"id":1,"name":"\xff"}', "UTF-8"),
        (b'{"id":1} {"id":2}', "trailing characters"),
        (b'{"id":1,"name":' + b"[" * 5000, "name"),
    ],
)
def test_a_value_that_does_not_fit_says_why(value: bytes, why: str) -> None:
    decoder = _decoder(_field("id", "byte", nullable=False), _field("name", "string"))
    with pytest.raises(UnfitError) as caught:
        decoder.decode(value)
    assert why.lower() in str(caught.value).lower()  # versions of msgspec spell UTF-8 differently


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("id LONG", "the schema is no JSON"),
        ('"long"', "the schema of values is a struct"),
        ('{"type":"struct","fields":[]}', "the schema has no fields"),
        ({"fields": [_field("a", "variant")]}, "a: values in JSON cannot have the type variant"),
        ({"fields": [_field("a", "decimal(40,2)")]}, "cannot have the type decimal"),
        ({"fields": [_field("a", "long"), _field("a", "long")]}, "the schema has two fields a"),
        (
            {"fields": [_field("s", {"type": "struct", "fields": [_field("m", {"type": "map", "keyType": "long"})]})]},
            "s.m: the keys of a map in JSON are texts",
        ),
    ],
)
def test_a_schema_without_a_column_is_refused(schema: Any, why: str) -> None:
    text = schema if isinstance(schema, str) else json.dumps({"type": "struct", **schema})
    with pytest.raises(SchemaError, match=why):
        JsonDecoder(text)
