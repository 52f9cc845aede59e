"""Tests which sources are refused before Spark starts."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct
from segment_logs import Spu, fill
from written_archives import SampleArchive

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.stats.stat_sources import source_of


class Session(Struct):
    """A session that only notes the options with which it is asked to read."""

    asked: list[dict[str, str]]

    @property
    def read(self) -> "Session":
        return self

    def format(self, name: str) -> "Session":
        return self

    def options(self, **options: str) -> "Session":
        self.asked.append(options)
        return self

    def load(self) -> None:
        pass

    def sql(self, query: str, **tables: Any) -> None:
        pass


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


async def test_internal_topics_are_counted_only_if_they_are_named(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    for number, topic in enumerate(("__consumer_offsets", "events")):
        topic_id = UUID(int=number + 1)
        log = spu.log(topic=topic, topic_id=topic_id)
        fill(log, 5)
        await log.sync()
        await spu.commit(5, topic_id=topic_id)
        if number == 0:
            with pytest.raises(JobError, match="there are only internal topics below"):
                source_of(segments=[str(tmp_path)])
    asked: list[dict[str, str]] = []
    for topics in ((), ("__consumer_offsets",)):
        source_of(segments=[str(tmp_path)], topics=topics).entries(Session(asked))  # type: ignore[arg-type]
    assert [each["topic"] for each in asked] == ['["events"]', '["__consumer_offsets"]']


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
