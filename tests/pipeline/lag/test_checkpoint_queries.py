from pathlib import Path

import pytest
from spark_progress import ID

from tailrace.client.log_facts import Partition
from tailrace.pipeline.lag.checkpoint_queries import CheckpointQueries
from tailrace.pipeline.lag.query_progress import ProgressError, QueryProgress
from tailrace.runtime.files import RealFiles

HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1767607200000,"conf":{}}\n'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint as Spark leaves it: batch 2 is done, and batch 3 has begun."""
    directory = tmp_path / "orders"
    for each in ("offsets", "commits", "sources/0"):
        (directory / each).mkdir(parents=True)
    (directory / "metadata").write_text(f'{{"id":"{ID}"}}')
    for batch in range(4):
        (directory / "offsets" / str(batch)).write_text(f'{HEAD}{{"orders":{{"0":{10 * batch}}}}}')
    for batch in range(3):
        (directory / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        (directory / "commits" / f".{batch}.crc").write_bytes(b"crc")
    return directory


async def test_a_query_is_where_its_last_batch_that_is_done_ended(checkpoint: Path) -> None:
    sight = await CheckpointQueries(RealFiles(), [f"{checkpoint}/"]).look()
    assert sight.events == (QueryProgress(ID, "", "orders", 2, {Partition("orders", 0): 20}),)
    (checkpoint / "commits" / "3").touch()
    (progress,) = (await CheckpointQueries(RealFiles(), [str(checkpoint)]).look()).events
    assert isinstance(progress, QueryProgress)
    assert progress.positions == {Partition("orders", 0): 30}


def test_batches_are_numbers_and_not_texts(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "10").write_text(f'{HEAD}{{"orders":{{"0":100}}}}')
    (checkpoint / "commits" / "10").touch()
    progress = CheckpointQueries(RealFiles(), []).progress_of(str(checkpoint))
    assert progress is not None
    assert progress.batch_id == 10


async def test_a_query_before_its_first_batch_is_nowhere(checkpoint: Path) -> None:
    for each in (checkpoint / "commits").iterdir():
        each.unlink()
    assert (await CheckpointQueries(RealFiles(), [str(checkpoint)]).look()).events == ()


async def test_what_is_no_checkpoint_is_a_sentence_and_hides_no_other(checkpoint: Path, tmp_path: Path) -> None:
    queries = CheckpointQueries(RealFiles(), [str(tmp_path / "nothing"), str(checkpoint)])
    sight = await queries.look()
    assert len(sight.events) == 1
    assert sight.problems == (
        f"{tmp_path}/nothing is no checkpoint of a streaming query: it has no file metadata. Give the directory of its "
        "checkpointLocation",
    )


def test_a_batch_without_offsets_is_a_sentence(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "2").unlink()
    with pytest.raises(ProgressError, match="offsets/2 cannot be read: No such file"):
        CheckpointQueries(RealFiles(), []).progress_of(str(checkpoint))
