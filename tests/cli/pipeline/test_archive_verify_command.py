"""Tests `tailrace pipeline archive verify` as far as it needs no Spark; compat_tests/spark runs it whole."""

from pathlib import Path

import pytest
from archive_samples import archived_partition, chunk

from tailrace.cli.main import main
from tailrace.cli.pipeline.archive_verify_command import _text
from tailrace.pipeline.archive.proofs.archive_proof import ChunkProof, prove_partition, verdict
from tailrace.pipeline.archive.proofs.archive_verification import VerifyResult

Capture = pytest.CaptureFixture[str]


def test_a_directory_that_is_no_archive_is_wrong_usage(tmp_path: Path, capsys: Capture) -> None:
    assert main(["pipeline", "archive", "verify", str(tmp_path), "--offline"]) == 2
    assert "is no archive" in capsys.readouterr().err
    (tmp_path / "archive.json").write_text("{")
    assert main(["pipeline", "archive", "verify", str(tmp_path), "--offline"]) == 2
    assert "archive.json is damaged" in capsys.readouterr().err


def test_the_report_has_a_row_for_each_partition_and_a_line_for_each_problem() -> None:
    good = ChunkProof(gaps={"compaction": 3, "marker": 1}, compared=10, log_end=20)
    bad = ChunkProof(gaps={}, problems=("one.parquet is missing",))
    partitions = (
        prove_partition(archived_partition(), [(chunk(0, 10), good)], 10),
        prove_partition(archived_partition(1), [(chunk(0, 5, 1), bad)], 5),
    )
    result = VerifyResult(
        job="archive verify",
        is_ok=False,
        verdict=verdict(partitions, [], is_offline=False),
        facts={"files that do not count": 30},
        partitions=partitions,
        notes=("topic gone was deleted",),
        orphans=("data/orders/date=2026-11-28/old.parquet",),
    )
    assert _text(result).splitlines() == [
        "TOPIC   PARTITION  FIRST  LAST  RECORDS  GAPS                    FILES  COMPARED  ROLL-UP           PROVEN",
        "orders          0      0     9       10  compaction 3, marker 1      1        10  000000000000000a  yes",
        "orders          1      0     4        5  -                           1         -  0000000000000005  no",
        "problem: one.parquet is missing",
        "note: topic gone was deleted",
        "does not count: data/orders/date=2026-11-28/old.parquet",
        "does not count: 29 more files",
        "not proven: 1 problem in 1 of 2 partitions",
    ]
    assert result.text().splitlines()[:4] == [
        "orders/0: offsets 0 to 9, 10 records, roll-up 000000000000000a: proven",
        "orders/1: offsets 0 to 4, 5 records, roll-up 0000000000000005: not proven",
        "one.parquet is missing",
        "topic gone was deleted",
    ]
