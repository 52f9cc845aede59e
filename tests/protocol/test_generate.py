from pathlib import Path
from typing import Any

import pytest

import tailrace.protocol
from tailrace.protocol.generate import PACKAGES, modules, schema_texts


def test_the_generated_modules_match_the_schemas() -> None:
    directory = Path(tailrace.protocol.__path__[0])
    checked_in = {
        f"{package}/{path.stem}": path.read_text()
        for package in PACKAGES
        for path in (directory / package).glob("*.py")
        if path.stem != "__init__"
    }
    assert checked_in == modules(schema_texts()), "run python -m tailrace.protocol.generate"


def schema(name: str, fields: str) -> str:
    return f"""// a comment
    {{ "apiKey": 7, "name": "{name}", "validVersions": "0-3", "flexibleVersions": "2+",
      // another
      "fields": [ {fields} ] }}"""


def generated(request: str, response: str) -> dict[str, object]:
    texts = {"PingRequest": schema("PingRequest", request), "PingResponse": schema("PingResponse", response)}
    namespace: dict[str, object] = {}
    exec(modules(texts)["messages/ping"], namespace)
    return namespace


ITEM = '{ "name": "Items", "type": "[]Item", "versions": "0+", "fields": [ %s ] }'


def test_a_struct_that_is_the_same_in_both_is_shared() -> None:
    field = '{ "name": "LeaderId", "type": "int32", "versions": "0+", "default": "-1" }'
    classes = generated(ITEM % field, ITEM % field)
    assert "PingResponseItem" not in classes
    assert repr(classes["Item"]()) == "Item(leader_id=-1)"  # type: ignore[operator]


def test_a_struct_of_the_same_name_that_differs_is_prefixed() -> None:
    field = '{ "name": "Id", "type": "%s", "versions": "0+" }'
    classes = generated(ITEM % (field % "int32"), ITEM % (field % "string"))
    assert repr(classes["Item"]()) == "Item(id=0)"  # type: ignore[operator]
    assert repr(classes["PingResponseItem"]()) == "PingResponseItem(id='')"  # type: ignore[operator]


def test_defaults() -> None:
    request = ", ".join(
        f'{{ "name": "{name}", "type": "{kind}", "versions": "0+"{more} }}'
        for name, kind, more in [
            ("Hex", "int32", ', "default": "0x7fffffff"'),
            ("Number", "int64", ', "default": -2'),
            ("Yes", "bool", ', "default": "true"'),
            ("No", "bool", ""),
            ("Text", "string", ', "nullableVersions": "1+", "default": "null"'),
            ("Share", "float64", ""),
            ("Blob", "bytes", ""),
            ("Batches", "records", ', "nullableVersions": "0+"'),
            ("Ids", "[]int32", ', "nullableVersions": "0+"'),
            ("TopicId", "uuid", ', "tag": 0, "taggedVersions": "2+"'),
        ]
    )
    ping = generated(request, "")["PingRequest"]()  # type: ignore[operator]
    assert (ping.hex, ping.number, ping.yes, ping.no, ping.text) == (0x7FFFFFFF, -2, True, False, None)
    assert (ping.share, ping.blob, ping.batches, ping.ids, ping.topic_id.int) == (0.0, b"", None, [], 0)


def test_the_key_and_the_value_of_a_record_stand_together() -> None:
    parts = [("PingRequest", 7, "request"), ("PingKey", 7, "coordinator-key"), ("PingValue", 7, "coordinator-value")]
    texts = {
        name: f'{{ "apiKey": {key}, "type": "{kind}", "name": "{name}", "validVersions": "0", "fields": [] }}'
        for name, key, kind in parts
    }
    sources = modules(texts)
    assert sorted(sources) == ["group_records/ping", "messages/ping"]
    namespace: dict[str, Any] = {}
    exec(sources["group_records/ping"], namespace)
    assert namespace["PingKey"].RECORD_TYPE == namespace["PingValue"].RECORD_TYPE == 7


def test_a_name_that_python_needs_is_refused() -> None:
    with pytest.raises(ValueError, match="list"):
        generated('{ "name": "List", "type": "int32", "versions": "0+" }', "")
