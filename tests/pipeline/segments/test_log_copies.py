from pathlib import Path
from uuid import UUID

import pytest
from segment_logs import TOPIC_ID, Spu, copy_of, fill

from tailrace.pipeline.segments.copy_choice import Extent
from tailrace.pipeline.segments.log_copies import CopyFinder, LogCopy
from tailrace.pipeline.segments.segment_options import OptionError, read_options
from tailrace.runtime.files import RealFiles
from tailrace.storage.directory.layout import parked_path

OTHER_ID = UUID("11111111-2222-3333-4444-555555555555")


def _copies(*directories: Path, **options: str) -> list[LogCopy]:
    path = ",".join(map(str, directories))
    finder = CopyFinder(RealFiles(read_only=True), read_options({"path": path, **options}))
    return [copy for copies in finder.copies().values() for copy in copies]


def _extent(copy: LogCopy, **options: str) -> Extent:
    return copy.extent(read_options({"path": "/", **options}))


async def test_a_copy_has_its_sealed_segments_up_to_its_high_watermark(tmp_path: Path) -> None:
    spu = Spu(tmp_path / "spu-1")
    log = spu.log()
    fill(log, 200)
    await log.sync()
    sealed_end = log.segments()[-1].base
    await spu.commit(195)
    (copy,) = _copies(tmp_path)
    assert (copy.topic, copy.topic_id, copy.partition) == ("events", TOPIC_ID, 0)
    assert [segment.base for segment in copy.segments] == [facts.base for facts in log.segments()]
    assert _extent(copy) == Extent(0, sealed_end)
    assert _extent(copy, includeUnsealed="true") == Extent(0, 195)
    await spu.commit(30)
    (copy,) = _copies(tmp_path)
    assert _extent(copy) == _extent(copy, includeUnsealed="true") == Extent(0, 30)
    (copy,) = _copies(tmp_path, committedOnly="false")
    assert _extent(copy, committedOnly="false", includeUnsealed="true") == Extent(0, 200)


async def test_a_log_that_was_closed_or_compacted_or_lost_its_start_is_listed_as_the_spu_sees_it(
    tmp_path: Path,
) -> None:
    spu = Spu(tmp_path)
    log = spu.log()
    fill(log, 200)
    await log.sync()
    await log.advance_log_start(60)
    await log.close()
    await spu.commit(200)
    (copy,) = _copies(tmp_path)
    assert copy.log_start == 60
    assert [(each.base, each.end) for each in copy.segments] == [(each.base, each.end) for each in log.segments()]
    assert _extent(copy, includeUnsealed="true") == Extent(60, 200)


async def test_replicas_of_several_spus_and_shelves_are_found(tmp_path: Path) -> None:
    spus = [Spu(tmp_path / f"spu-{number}") for number in (1, 2, 3)]
    source = spus[0].log()
    fill(source, 200)
    logs = [source, spus[1].log(), spus[2].shelf(0)]
    copy_of(logs[1], source, 0, 100)
    copy_of(logs[2], source, 0, source.segments()[0].end)
    for spu, log in zip(spus, logs, strict=True):
        await log.sync()
        await spu.commit(100)
    found = _copies(tmp_path, includeUnsealed="true", topic="events")
    assert [copy.directory.removeprefix(str(tmp_path))[:6] for copy in found] == ["/spu-1", "/spu-2", "/spu-3"]
    assert [_extent(copy, includeUnsealed="true").end for copy in found] == [100, 100, source.segments()[0].end]
    (shelf,) = _copies(tmp_path / "spu-3")
    assert shelf.topic == str(TOPIC_ID)


async def test_only_the_wanted_topics_and_partitions_are_found(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    for partition in (0, 1, 2):
        fill(spu.log(partition), 5)
        await spu.commit(5, partition)
    fill(spu.log(topic="other", topic_id=OTHER_ID), 5)
    await spu.commit(5, topic_id=OTHER_ID)
    assert [copy.partition for copy in _copies(tmp_path, partitions="1-2", topic="events")] == [1, 2]
    assert [copy.topic for copy in _copies(tmp_path, topicId=str(OTHER_ID))] == ["other"]
    assert len(_copies(tmp_path)) == 4
    with pytest.raises(OptionError, match="there is no topic absent below"):
        _copies(tmp_path, topic="events,absent")
    with pytest.raises(OptionError, match="there is no partition that"):
        _copies(tmp_path, partitions="9")


async def test_a_topic_that_was_created_again_is_refused_unless_its_old_files_are_parked(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    fill(spu.log(), 5)
    fill(spu.log(topic_id=OTHER_ID), 5)
    await spu.commit(5)
    with pytest.raises(OptionError, match=f"{OTHER_ID} and {TOPIC_ID}: choose one with topicId"):
        _copies(tmp_path)
    await spu.files.replace(parked_path(spu.directory, "events", OTHER_ID), b"1")
    assert [copy.topic_id for copy in _copies(tmp_path)] == [TOPIC_ID]


async def test_without_high_watermarks_nothing_is_known_to_be_committed(tmp_path: Path) -> None:
    spu = Spu(tmp_path)
    fill(spu.log(), 5)
    with pytest.raises(OptionError, match=r"high-watermarks is missing .* set committedOnly to false"):
        _copies(tmp_path)
    assert len(_copies(tmp_path, committedOnly="false")) == 1
    await spu.commit(5, partition=7)
    (copy,) = _copies(tmp_path)
    assert _extent(copy, includeUnsealed="true") == Extent(0, 0)


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=f"{tmp_path}/absent does not exist on the driver"):
        _copies(tmp_path / "absent")
