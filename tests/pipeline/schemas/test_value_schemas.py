"""Tests that no value is lost, whether it fits or not."""

import json
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

from tailrace.pipeline.schemas.value_errors import SchemaError  # noqa: E402
from tailrace.pipeline.schemas.value_schemas import (  # noqa: E402
    ValueDecoder,
    ValueSchema,
    read_value_schema,
    required_packages,
)

FIELDS = [("id", "long", False), ("price", "decimal(5,2)", True)]
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": n, "type": t, "nullable": null} for n, t, null in FIELDS]})


def _ddl(content: str) -> str:
    assert content == "id BIGINT NOT NULL, price DECIMAL(5,2)"
    return SCHEMA


def test_a_batch_gets_data_beside_the_raw_values() -> None:
    values = [b'{"id":1,"price":"9.99"}', None, b"nul json", b'{"id":2,"price":123456.7}', b'{"id":3}']
    batch = pa.record_batch({"offset": range(5), "value": pa.array(values, pa.binary())})
    found = ValueDecoder(ValueSchema("json", SCHEMA)).with_data(batch)
    assert found.batch.schema.names == ["offset", "value", "data", "dataError"]
    assert found.batch.column("value").to_pylist() == values
    assert [None if each is None else each["id"] for each in found.batch.column("data").to_pylist()] == [
        1, None, None, None, 3,
    ]  # fmt: skip
    errors = found.batch.column("dataError").to_pylist()
    assert [each is not None for each in errors] == [False, False, True, True, False]
    assert errors[2] is not None and errors[2].startswith("JSON is malformed")
    assert "precision" in errors[3].lower()
    assert found.unfit == 2


def test_an_empty_batch_has_the_same_columns() -> None:
    decoder = ValueDecoder(ValueSchema("json", SCHEMA))
    found = decoder.with_data(pa.record_batch({"value": pa.array([], pa.binary())}))
    assert (found.batch.schema.field("data").type, found.unfit) == (decoder.type, 0)


def test_a_schema_is_read_from_a_file_as_ddl_or_json(tmp_path: Path) -> None:
    (tmp_path / "a.ddl").write_text("id BIGINT NOT NULL, price DECIMAL(5,2)")
    (tmp_path / "a.json").write_text(f"\n{SCHEMA}")
    for name in ("a.ddl", "a.json"):
        found = read_value_schema(f"json:{tmp_path / name}", _ddl)
        assert ValueDecoder(found).type.names == ["id", "price"]
        assert required_packages(found) == ()
    assert required_packages(None) == ()


def test_schemas_of_a_registry_are_read_with_their_ids(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    path = tmp_path / "a.avsc"
    path.write_text('{"type":"record","name":"R","fields":[{"name":"id","type":"long"}]}')
    found = read_value_schema(f"confluent-avro:7={path},9={path}", _ddl)
    assert [each.id for each in found.avro] == [7, 9]
    assert required_packages(found) == ("fastavro",)
    assert read_value_schema(f"avro:{path}", _ddl).avro[0].id is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("xml:a", "a schema cannot be 'xml:a': it is json:FILE, avro:FILE or confluent-avro:"),
        ("json:", "a schema cannot be 'json:'"),
        ("json:nowhere", "nowhere cannot be read: No such file or directory"),
        ("json:BAD", "json:.*: the schema of values is a struct|the schema has no fields"),
        ("confluent-avro:BAD", "is no schema of a registry: write the id that the registry shows and a file"),
        ("confluent-avro:1=BAD,1=BAD", "is no schema of a registry"),
    ],
)
def test_what_is_no_schema_is_one_sentence(given: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_text('{"type":"struct","fields":[]}')
    with pytest.raises(SchemaError, match=why):
        read_value_schema(given.replace("BAD", str(path)), _ddl)
