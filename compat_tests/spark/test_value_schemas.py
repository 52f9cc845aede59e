"""An archive with a schema has the values as columns, in Spark, in statistics and in a table."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import deltalake
import pytest
import trio
from pyspark.sql import Row, SparkSession
from segment_logs import Spu, append

from tailrace.cli.main import main
from tailrace.pipeline.archive import archive, read_archive
from tailrace.pipeline.tables import delta_table

Capture = pytest.CaptureFixture[str]
DDL = (
    "id BIGINT NOT NULL,\n  price DECIMAL(9,2), tags ARRAY<STRING>, place STRUCT<`the city`: STRING> COMMENT 'where'\n"
)
VALUES = [
    b'{"id":1,"price":2.50,"tags":["a","b"],"place":{"the city":"Graz"}}',
    b'{"id":2}',
    b'{"price":1}',
    None,
    b"no json",
]


async def _write(directory: Path) -> None:
    spu = Spu(directory)
    log = spu.log()
    append(log, [(b"key-%d" % (number % 2), value) for number, value in enumerate(VALUES)])
    await log.sync()
    await spu.commit(log.log_end)


async def _write_one(spu: Spu, partition: int, value: bytes) -> None:
    log = spu.log(partition)
    append(log, [(b"key", value)])
    await log.sync()
    await spu.commit(log.log_end, partition)


def _run(capsys: Capture, *words: str) -> tuple[int, str, str]:
    status = main(["pipeline", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_values_are_columns_and_none_is_lost(spark_session: SparkSession, tmp_path: Path, capsys: Capture) -> None:
    data, to, schema = tmp_path / "spu", str(tmp_path / "archive"), tmp_path / "order.ddl"
    trio.run(_write, data)
    words = ("archive", "run", "events", "--to", to, "--segments", str(data))
    schema.write_text("id NUMBER")
    status, _, said = _run(capsys, *words, "--schema", f"json:{schema}")
    assert status != 0
    assert "the schema is neither DDL nor JSON of Spark" in said
    schema.write_text(DDL)
    status, said, _ = _run(capsys, *words, "--schema", f"json:{schema}", "--output", "json")
    assert status == 0
    assert json.loads(said)["facts"]["values that do not fit the schema"] == 2

    frame = read_archive(spark_session, to, topics=["events"]).orderBy("offset")
    rows = frame.selectExpr("value", "data.id", "data.price", "data.tags", "data.place", "dataError").collect()
    assert [None if row.value is None else bytes(row.value) for row in rows] == VALUES
    assert tuple(rows[0])[1:] == (1, Decimal("2.50"), ["a", "b"], Row(**{"the city": "Graz"}), None)
    assert [row.id for row in rows] == [1, 2, None, None, None]
    assert [row.dataError for row in rows[:4]] == [None, None, "Object missing required field `id`", None]
    assert rows[4].dataError.startswith("JSON is malformed")

    status, said, _ = _run(capsys, "stats", "--archive", to, "--output", "json")
    assert status == 0
    (topic,) = json.loads(said)["topics"]
    (partition,) = topic["partitions"]
    assert (partition["records"], partition["batches"], partition["stored_bytes"]) == (5, None, None)
    assert partition["content_bytes"] == 5 * 5 + sum(len(value or b"") for value in VALUES)
    assert (partition["compaction"]["keys"], partition["compaction"]["tombstones"]) == (2, 1)
    assert (topic["value_sizes"]["nulls"], topic["batch_records"]) == (1, None)

    assert delta_table(to, str(tmp_path / "table")).added == 1
    table = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table(columns=["offset", "data", "dataError"])
    found = table.sort_by("offset").to_pylist()
    assert found[0]["data"]["place"] == {"the city": "Graz"}
    assert [row["dataError"] for row in found] == [row.dataError for row in rows]


def test_a_new_field_is_a_column_whichever_partition_has_it_first(spark_session: SparkSession, tmp_path: Path) -> None:
    data, to, schema = tmp_path / "spu", str(tmp_path / "archive"), tmp_path / "order.ddl"
    spu = Spu(data)
    for partition, value, ddl in (
        (1, b'{"id":1}', "id BIGINT"),
        (0, b'{"id":2,"city":"Graz"}', "id BIGINT, city STRING"),
    ):
        trio.run(_write_one, spu, partition, value)
        schema.write_text(ddl)
        archive(spark_session, ["events"], to, segments=[str(data)], schema=f"json:{schema}")
    rows = read_archive(spark_session, to).select("data.id", "data.city").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, None), (2, "Graz")]
