from pathlib import Path
from uuid import UUID

import pytest
from audited_spus import ThreeSpus
from segment_logs import TOPIC_ID, fill

from tailrace.pipeline.audit.copy_finding import CopyFinder, Expected, Found, LostCopy
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.protocol.ids import NO_EPOCH
from tailrace.runtime.files import RealFiles
from tailrace.storage.directory.checkpoints import (
    SavedHighWatermark,
    load_high_watermarks,
    save_high_watermarks,
    save_removed_replicas,
)
from tailrace.storage.directory.layout import parked_path

NOTHING = Expected()


def _find(*paths: Path, expected: Expected = NOTHING, topics: tuple[str, ...] = ()) -> Found:
    return CopyFinder(RealFiles(read_only=True), list(map(str, paths)), topics).find(expected)


async def test_replicas_of_all_spus_are_found_with_their_high_watermarks(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    await spus.spus[2].commit(100)
    found = _find(tmp_path)
    (copies,) = found.copies.values()
    assert [(found.spus[each.data_directory], each.high_watermark) for each in copies] == [(1, 200), (2, 100), (3, 200)]
    assert not found.lost
    assert {each.directory for each in copies} == {str(spus.replica(number)) for number in spus.spus}


async def test_a_replica_whose_high_watermark_is_saved_and_whose_directory_is_gone_is_lost(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    for path in sorted(spus.replica(3).iterdir()):
        path.unlink()
    spus.replica(3).rmdir()
    (lost,) = _find(tmp_path).lost
    assert (lost.topic, lost.partition, lost.directory) == ("events", 0, str(tmp_path / "spu-3"))
    assert lost.reason == "its SPU saved a high watermark for it, and its directory is gone"
    # The SPU itself has removed it, because the partition moved away.
    await save_removed_replicas(RealFiles(), str(tmp_path / "spu-3"), [(TOPIC_ID, 0)])
    assert not _find(tmp_path).lost


async def test_parked_replicas_are_neither_compared_nor_lost(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    await RealFiles().replace(parked_path(str(tmp_path / "spu-3"), "events", TOPIC_ID, 0), b"1")
    found = _find(tmp_path)
    assert [len(copies) for copies in found.copies.values()] == [2]
    assert not found.lost
    assert spus.directory == tmp_path


async def test_the_caller_may_know_how_many_replicas_there_are(tmp_path: Path) -> None:
    await ThreeSpus(tmp_path).write()
    assert not _find(tmp_path, expected=Expected(count=3)).lost
    (lost,) = _find(tmp_path, expected=Expected(count=4)).lost
    assert lost == LostCopy("events", TOPIC_ID, 0, None, "3 replicas were found instead of 4")


async def test_the_caller_may_know_the_spus_of_the_replicas(tmp_path: Path) -> None:
    await ThreeSpus(tmp_path).write()
    (tmp_path / "spu-4" / "topics").mkdir(parents=True)
    (tmp_path / "spu-4" / "spu").write_text("tailrace spu 4\n")
    other = UUID(int=7)
    expected = Expected(
        spus={(TOPIC_ID, 0): (1, 2, 4, 5), (other, 1): (1,)}, topics={TOPIC_ID: "events", other: "orders"}
    )
    assert [(each.topic, each.directory, each.reason) for each in _find(tmp_path, expected=expected).lost] == [
        ("orders", None, "SPU 1 should have a replica, and none was found"),
        ("events", str(tmp_path / "spu-4"), "SPU 4 should have a replica, and its directory is gone"),
        ("events", None, "SPU 5 should have a replica, and its data directory was not given"),
    ]
    assert not _find(tmp_path, expected=Expected(spus={(TOPIC_ID, 0): (1, 2, 3)})).lost


async def test_a_replica_without_a_committed_record_has_no_files_and_is_not_lost(tmp_path: Path) -> None:
    await ThreeSpus(tmp_path).write()
    data, unused, used = str(tmp_path / "spu-3"), (UUID(int=7), 0), (UUID(int=7), 1)
    saved = load_high_watermarks(RealFiles(), data)
    saved |= {unused: SavedHighWatermark(0, NO_EPOCH), used: SavedHighWatermark(1, NO_EPOCH)}
    await save_high_watermarks(RealFiles(), data, saved)
    expected = Expected(spus={unused: (3,), used: (3,)}, topics={UUID(int=7): "orders"})
    assert [each.partition for each in _find(tmp_path, expected=expected).lost] == [1]


async def test_a_partition_with_fewer_replicas_than_most_of_its_topic_has_lost_one(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    for partition in (1, 2, 3):
        for number in (1, 2) if partition == 3 else (1, 2, 3):
            log = spus.spus[number].log(partition)
            fill(log, 5)
            await log.sync()
            await spus.spus[number].commit(5, partition)
    (lost,) = _find(tmp_path).lost
    assert (lost.partition, lost.reason) == (
        3,
        "2 replicas were found instead of 3, as most partitions of the topic have",
    )


async def test_a_shelf_is_a_copy_too(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write()
    shelf = spus.spus[1].shelf(0)
    fill(shelf, 50)
    await shelf.sync()
    (copies,) = _find(tmp_path).copies.values()
    assert [each.is_shelf for each in copies] == [False, False, False, True]


async def test_what_cannot_be_audited_is_one_sentence(tmp_path: Path) -> None:
    await ThreeSpus(tmp_path).write()
    with pytest.raises(JobError, match="nowhere does not exist on the driver"):
        _find(tmp_path / "nowhere")
    with pytest.raises(JobError, match=f"there is no topic orders below {tmp_path}"):
        _find(tmp_path, topics=("orders",))
    (tmp_path / "empty").mkdir()
    with pytest.raises(JobError, match="there is no partition below"):
        _find(tmp_path / "empty")
    (tmp_path / "spu-2" / "high-watermarks").unlink()
    with pytest.raises(JobError, match="high-watermarks is missing or damaged, so it is unknown which records"):
        _find(tmp_path)
