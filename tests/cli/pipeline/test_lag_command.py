"""Tests `tailrace pipeline lag` on a whole SPU, with checkpoints as Spark writes them."""

import json
from pathlib import Path

import pytest
from grouped_spu import GroupedSpu, grouped_spu
from spark_progress import ID
from spus import ADDRESS

from tailrace.cli.main import main, parse
from tailrace.cli.pipeline.lag_command import execute
from tailrace.runtime.files import RealFiles

Capture = pytest.CaptureFixture[str]
HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1767607200000,"conf":{}}\n'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    directory = tmp_path / "billing"
    for each in ("offsets", "commits"):
        (directory / each).mkdir(parents=True)
    (directory / "metadata").write_text(f'{{"id":"{ID}"}}')
    (directory / "offsets" / "0").write_text(f'{HEAD}{{"orders":{{"1":3,"0":4}}}}')
    (directory / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return directory


async def _lag(spu: GroupedSpu, *words: str) -> int:
    arguments = parse(["pipeline", "lag", "--bootstrap", str(ADDRESS), *words])
    return await execute(arguments, spu.network, RealFiles(), spu.clock)


async def _filled(spu: GroupedSpu) -> None:
    await spu.running.create("orders", 2)
    await spu.produce("orders", 0, 10)
    await spu.produce("orders", 1, 3)
    spu.clock.time_ms += 60_004  # a record is 1 ms younger than the one before it


async def test_lag_is_shown_and_nothing_is_committed(autojump_clock: object, checkpoint: Path, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await _filled(spu)
        assert await _lag(spu, "--checkpoint", str(checkpoint)) == 0
        assert capsys.readouterr().out == (
            "QUERY    TOPIC   PARTITION  POSITION  LOG END  LAG  BEHIND\n"
            "billing  orders          0         4       10    6  1 m\n"
            "billing  orders          1         3        3    0  0 s\n"
        )
        assert await spu.tailrace("list") == 0
        assert "billing" not in capsys.readouterr().out


async def test_lag_is_committed_to_a_group(autojump_clock: object, checkpoint: Path, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await _filled(spu)
        words = ("--checkpoint", str(checkpoint), "--group", "spark-{query}", "--output", "json")
        assert await _lag(spu, *words) == 0
        first, _ = json.loads(capsys.readouterr().out)
        assert first == {
            "query": "billing",
            "group": "spark-billing",
            "topic": "orders",
            "partition": 0,
            "position": 4,
            "log_end": 10,
            "lag": 6,
            "lag_seconds": 60.0,
        }
        assert await spu.tailrace("describe", "spark-billing") == 0
        assert "Lag:         6\n" in capsys.readouterr().out


async def test_a_query_before_its_first_batch_is_said(
    autojump_clock: object, checkpoint: Path, capsys: Capture
) -> None:
    (checkpoint / "commits" / "0").unlink()
    async with grouped_spu() as spu:
        assert await _lag(spu, "--checkpoint", str(checkpoint)) == 0
        assert capsys.readouterr().out == "No batch of these queries is done yet.\n"


async def test_a_group_with_members_is_refused(autojump_clock: object, checkpoint: Path, capsys: Capture) -> None:
    async with grouped_spu() as spu:
        await _filled(spu)
        await spu.member("g", "worker", "orders", [0])
        assert await _lag(spu, "--checkpoint", str(checkpoint), "--group", "g") == 1
        assert "group g, orders/0: the group has members" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["--checkpoint", "nothing"], 2, "nothing is no checkpoint of a streaming query"),
        (["--checkpoint", "CHECKPOINT", "--metrics", "127.0.0.1:1"], 2, "--metrics has no effect without --follow"),
        (["--checkpoint", "CHECKPOINT", "--follow", "--metrics", "x"], 2, "--metrics: 'x' is not HOST:PORT"),
        (["--checkpoint", "CHECKPOINT", "--bootstrap", "x"], 2, "bootstrap: 'x' is not HOST:PORT"),
        (["--checkpoint", "CHECKPOINT", "--group", ""], 2, "the group needs a name"),
        (["--checkpoint", "CHECKPOINT", "--bootstrap", "127.0.0.1:1"], 3, "the broker at 127.0.0.1:1 does not answer"),
    ],
)
def test_failures_are_one_sentence(
    words: list[str], status: int, sentence: str, checkpoint: Path, capsys: Capture
) -> None:
    given = [str(checkpoint) if each == "CHECKPOINT" else each for each in words]
    assert main(["pipeline", "lag", *given]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tailrace pipeline lag: ")
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
