"""Tests the tables of `tailrace pipeline stats`; compat_tests/spark/test_stats.py runs it with Spark."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from stat_examples import result, topic

from tailrace.cli.main import main
from tailrace.cli.pipeline import stats_command

Capture = pytest.CaptureFixture[str]


def test_the_tables_show_skew_sizes_and_duplicates(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(stats_command, "run_stats", lambda arguments, report: result(topic("orders"), topic("x")))
    assert main(["pipeline", "stats", "--segments", "/data/spu-1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "TOPIC   PARTITIONS  RECORDS  CONTENT     STORED      SKEW  KEYS  SAVES   PRODUCERS  DUPLICATES\n"
        "orders           2       40  2000 bytes  1000 bytes  1.00     4  75.0 %          1           2\n"
    )
    assert "\norders\nPARTITION  RECORDS  SHARE   STORED     RATE  PEAK  KEYS  DELETABLE" in shown
    assert "\nalice             1       20  50.0 %  900 bytes\n" in shown
    assert "Value bytes             3     0  1366.7  103  4000  4000     4000\n" in shown
    assert "Compression: zstd 100.0 %\n" in shown
    assert "\norders/0          7      0         3      2      3     8\n" in shown
    assert shown.endswith("ok: 80 records of /data/spu-1 are counted, 4 duplicates among them\n")


def test_rates_have_no_exponent(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    plain = topic("orders")
    fast = replace(plain, partitions=[replace(each, peak_per_second=51_234.5) for each in plain.partitions])
    monkeypatch.setattr(stats_command, "run_stats", lambda arguments, report: result(fast))
    assert main(["pipeline", "stats", "--segments", "/data/spu-1"]) == 0
    assert " 51234/s " in capsys.readouterr().out


def test_json_has_all_of_it(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(stats_command, "run_stats", lambda arguments, report: result())
    assert main(["pipeline", "stats", "--segments", "/data/spu-1", "--output", "json"]) == 0
    assert capsys.readouterr().out == result().json() + "\n"


def test_a_directory_without_logs_is_said(tmp_path: Path, capsys: Capture) -> None:
    assert main(["pipeline", "stats", "--segments", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"tailrace pipeline stats: there is no partition that the query asks for below {tmp_path}\n"
    )
