"""Tests which values in Avro fit a schema, with values that fastavro writes."""

import datetime
import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from tailrace.pipeline.schemas.avro_values import AvroDecoder  # noqa: E402
from tailrace.pipeline.schemas.value_errors import SchemaError, UnfitError  # noqa: E402
from tailrace.pipeline.schemas.value_schemas import AvroSchema  # noqa: E402

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": ["null", "string"], "default": None},
    ],
}


def _record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Value", "fields": list(fields)}


def _decoder(*schemas: dict[str, Any], ids: tuple[int | None, ...] = (None,)) -> AvroDecoder:
    given = [AvroSchema(json.dumps(schema), number) for schema, number in zip(schemas, ids, strict=True)]
    return AvroDecoder(given, is_framed=ids[0] is not None)


def _encoded(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    content = BytesIO()
    fastavro.schemaless_writer(content, schema, value)
    return content.getvalue()


def test_every_type_of_avro_has_a_column() -> None:
    schema = _record(
        {"name": "n", "type": "int"},
        {"name": "f", "type": "float"},
        {"name": "b", "type": "bytes"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "again", "type": ["Kind", "null"]},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}},
        {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "map", "type": {"type": "map", "values": "boolean"}},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]}},
    )
    value = {
        "n": 1,
        "f": 0.5,
        "b": b"\x00",
        "day": datetime.date(2026, 1, 31),
        "time": datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC),
        "local": datetime.datetime(2026, 1, 31, 12),
        "price": Decimal("1.25"),
        "uuid": "7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b",
        "clock": datetime.time(0, 0, 1),
        "kind": "A",
        "again": None,
        "code": b"ab",
        "list": [1, None],
        "map": {"k": True},
        "inner": {"x": 2.0},
    }
    decoder = _decoder(schema)
    (found,) = pa.array([decoder.decode(_encoded(schema, value))], decoder.type).to_pylist()
    assert found == {**value, "map": [("k", True)], "clock": 1000}


def test_the_value_must_end_where_its_record_does() -> None:
    decoder = _decoder(OLD)
    whole = _encoded(OLD, {"id": 300})
    assert decoder.decode(whole) == {"id": 300}
    for value, why in ((whole[:-1], "ends before the record does"), (whole + b"x", "1 bytes follow the record")):
        with pytest.raises(UnfitError, match=why):
            decoder.decode(value)


def test_a_registry_tells_the_schemas_of_older_values_apart() -> None:
    decoder = _decoder(OLD, NEW, ids=(7, 9))
    old = b"\x00\x00\x00\x00\x07" + _encoded(OLD, {"id": 1})
    new = b"\x00\x00\x00\x00\x09" + _encoded(NEW, {"id": 2, "item": "pears"})
    assert [decoder.decode(each) for each in (old, new)] == [{"id": 1, "item": None}, {"id": 2, "item": "pears"}]
    with pytest.raises(UnfitError, match="the value has the schema 8 of the registry, which is not given"):
        decoder.decode(b"\x00\x00\x00\x00\x08\x02")
    with pytest.raises(UnfitError, match="does not begin with the id of a schema"):
        decoder.decode(b"\x02")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "the schema is no JSON"),
        ('"string"', "the schema of values in Avro is a record"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"nothing"}]}', "no schema of Avro"),
        (json.dumps(_record()), "Value has no fields"),
        (json.dumps(_record({"name": "a", "type": ["int", "string"]})), "a: a union may have null and one other type"),
        (json.dumps(_record({"name": "a", "type": "null"})), "a: null alone is no type of a column"),
        (json.dumps(_record({"name": "next", "type": ["null", "Value"]})), "next: the type Value contains itself"),
    ],
)
def test_a_schema_without_a_column_is_refused(schema: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        AvroDecoder([AvroSchema(schema)], is_framed=False)
