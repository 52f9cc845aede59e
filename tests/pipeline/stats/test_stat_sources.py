"""Tests which sources are refused before Spark starts."""

from pathlib import Path

import pytest
from segment_logs import Spu, fill
from written_archives import SampleArchive

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.stats.stat_sources import source_of


async def test_the_logs_of_a_directory_are_found(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    log = spu.log()
    fill(log, 5)
    await log.sync()
    await spu.commit(5)
    source = source_of(segments=[str(tmp_path)], topics=["events"])
    assert (source.name, source.is_archive) == (str(tmp_path), False)
    with pytest.raises(JobError, match="there is no topic other below"):
        source_of(segments=[str(tmp_path)], topics=["other"])


def test_the_topics_of_an_archive_are_known(tmp_path: Path) -> None:
    archive = SampleArchive(tmp_path)
    source = source_of(archive=archive.directory, topics=["orders"])
    assert (source.name, source.is_archive) == (str(tmp_path), True)
    with pytest.raises(JobError, match="has no topic other: it has orders"):
        source_of(archive=archive.directory, topics=["other"])
    with pytest.raises(JobError, match="is no archive"):
        source_of(archive=str(tmp_path / "none"))


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="nowhere does not exist"):
        source_of(segments=[str(tmp_path / "nowhere")])
    with pytest.raises(JobError, match="statistics need either segments"):
        source_of()
    with pytest.raises(JobError, match="statistics need either segments"):
        source_of(segments=["a"], archive="b")
