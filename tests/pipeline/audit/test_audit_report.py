import io
import json
from pathlib import Path

import pytest
from audited_spus import ThreeSpus, audit_below, flip

from tailrace.pipeline.audit.audit_report import AuditResult, audit_families, parquet_tables
from tailrace.server.metric_text import render


@pytest.fixture
async def wrong(tmp_path: Path) -> AuditResult:
    spus = await ThreeSpus(tmp_path).write()
    flip(spus.segments(2)[-1], 100)
    return audit_below(tmp_path)


async def test_the_text_names_the_copy_and_the_offsets(wrong: AuditResult) -> None:
    lines = wrong.text().splitlines()
    assert lines[0].startswith("events/0 on SPU 2: rotten, offsets ")
    assert lines[0].endswith("the checksum of the batch at offset 180 is wrong")
    assert "rotten      1" in lines
    assert lines[-1] == "not ok: copies are wrong in 1 of 1 partitions, findings: 1"


async def test_json_has_all_copies_and_findings(wrong: AuditResult) -> None:
    document = json.loads(wrong.json())
    assert (document["is_ok"], [copy["verdict"] for copy in document["copies"]]) == (
        False,
        ["equal", "rotten", "equal"],
    )
    assert [each["verdict"] for each in document["copies"][1]["findings"]] == ["rotten"]


async def test_parquet_has_a_table_of_copies_and_one_of_findings(wrong: AuditResult) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    tables = {name: parquet.read_table(io.BytesIO(content)).to_pylist() for name, content in parquet_tables(wrong)}
    assert [(row["spu"], row["verdict"]) for row in tables["copies.parquet"]] == [
        (1, "equal"), (2, "rotten"), (3, "equal"),
    ]  # fmt: skip
    assert [(row["topic"], row["spu"], row["first"]) for row in tables["findings.parquet"]] == [("events", 2, 180)]
    empty = dict(parquet_tables(AuditResult("audit", True, "")))
    assert parquet.read_table(io.BytesIO(empty["findings.parquet"])).num_rows == 0


async def test_metrics_count_copies_by_verdict(wrong: AuditResult) -> None:
    text = render(lambda: audit_families(wrong.copies, 1.5)).decode()
    assert 'tailrace_pipeline_audit_copies{verdict="rotten"} 1.0' in text
    assert 'tailrace_pipeline_audit_wrong_copies{partition="0",topic="events"} 1.0' in text
    assert "tailrace_pipeline_audit_timestamp_seconds 1.5" in text
