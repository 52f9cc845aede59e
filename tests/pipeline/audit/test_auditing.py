"""Audits of real logs without Spark: what is found, and what is not."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from audited_spus import ThreeSpus, audit_below, flip, row, run_here, verdicts
from msgspec.structs import replace
from segment_logs import CONFIG, START_MS, append, append_in_transaction, copy_of, end_transaction, fill

from tailrace.pipeline.audit.audit_tasks import AuditTask, TaskFacts
from tailrace.pipeline.audit.auditing import audit_with
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.jobs.job_progress import Report
from tailrace.protocol.batches import control_batches
from tailrace.protocol.batches.record_batch import read_header
from tailrace.storage.log.log import Log

TABLE = replace(CONFIG, compacts=True, deletes=False, min_cleanable_dirty_ratio=0.0, delete_retention_ms=1000)


@pytest.fixture
async def spus(tmp_path: Path) -> ThreeSpus:
    return await ThreeSpus(tmp_path).write()


async def test_equal_copies_are_equal(spus: ThreeSpus) -> None:
    result = audit_below(spus.directory)
    assert (result.is_ok, result.status) == (True, 0)
    assert (result.facts["equal"], result.facts["records"]) == (3, 600)


@pytest.mark.parametrize(
    ("position", "expected"), [(100, "rotten"), (40, "rotten"), (7, "diverged"), (15, "diverged"), (18, "rotten")]
)
async def test_one_flipped_bit_is_found_in_the_copy_that_has_it(spus: ThreeSpus, position: int, expected: str) -> None:
    for segment in (1, -1):
        flip(spus.segments(2)[segment], position)
        assert verdicts(audit_below(spus.directory)) == {2: expected}
        flip(spus.segments(2)[segment], position)
    assert verdicts(audit_below(spus.directory)) == {}


async def test_every_bit_of_a_single_copy_is_proven_if_its_segment_is_sealed(spus: ThreeSpus) -> None:
    for number in (1, 3):
        shutil.rmtree(spus.directory / f"spu-{number}")
    segment = spus.segments(2)[1]
    for position in range(130):
        flip(segment, position, 0x10)
        assert verdicts(audit_below(spus.directory)).keys() == {2}, position
        flip(segment, position, 0x10)
    assert verdicts(audit_below(spus.directory)) == {}


async def test_headers_alone_show_other_batches_but_no_flipped_bit_in_a_record(spus: ThreeSpus) -> None:
    flip(spus.segments(2)[1], 100)
    assert verdicts(audit_below(spus.directory, checks_bodies=False)) == {}
    flip(spus.segments(2)[1], 18)
    assert verdicts(audit_below(spus.directory, checks_bodies=False)) == {2: "diverged"}


async def test_segments_that_changed_places_have_diverged(spus: ThreeSpus) -> None:
    first, second = spus.segments(2)[:2]
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])
    assert verdicts(audit_below(spus.directory)) == {2: "diverged"}


async def test_a_copy_that_is_behind_is_equal(spus: ThreeSpus) -> None:
    await spus.spus[2].commit(100)
    result = audit_below(spus.directory)
    assert (verdicts(result), row(result, 2).behind, result.facts["behind"]) == ({}, 100, 1)
    # What lies beyond its high watermark may be anything.
    flip(spus.segments(2)[-1], 100)
    assert verdicts(audit_below(spus.directory)) == {}


async def test_a_copy_that_was_away_ends_earlier(tmp_path: Path) -> None:
    spus = await ThreeSpus(tmp_path).write(100)
    for number in (1, 3):
        fill(spus.logs[number], 100)
    await spus.commit()
    result = audit_below(tmp_path)
    assert (verdicts(result), row(result, 2).behind, row(result, 3).behind) == ({}, 100, 0)


async def test_a_lost_end_and_a_lost_copy_are_missing(spus: ThreeSpus) -> None:
    last = spus.segments(2)[-1]
    last.write_bytes(last.read_bytes()[:-1])
    shutil.rmtree(spus.replica(3))
    assert verdicts(audit_below(spus.directory)) == {2: "missing", 3: "missing"}


async def test_deleted_records_are_not_missing(spus: ThreeSpus) -> None:
    await spus.logs[1].advance_log_start(102)
    await spus.logs[2].advance_log_start(50)
    result = audit_below(spus.directory)
    assert (verdicts(result), row(result, 1).start) == ({}, 102)


async def test_a_manifest_with_a_flipped_bit_is_rotten(spus: ThreeSpus) -> None:
    flip(spus.replica(2) / "manifest", 12)
    assert verdicts(audit_below(spus.directory)) == {2: "rotten"}


async def test_a_topic_that_is_deleted_meanwhile_has_lost_nothing(spus: ThreeSpus) -> None:
    def delete_and_run(tasks: Sequence[AuditTask], name: str, report: Report | None) -> list[TaskFacts]:
        for number in (1, 2, 3):
            parked = spus.replica(number).with_name("0.parked")
            parked.write_text("1")
            for path in spus.segments(number):
                path.unlink()
        return run_here(tasks, name, report)

    result = audit_with(delete_and_run, [str(spus.directory)])
    assert (result.is_ok, result.copies) == (True, ())


async def test_a_shelf_is_compared_with_the_replicas(spus: ThreeSpus) -> None:
    shelf, log = spus.spus[3].shelf(0), spus.logs[1]
    end = log.segments()[2].end
    copy_of(shelf, log, 0, end)
    shelf.roll()
    await shelf.sync()
    for number in (1, 2):
        await spus.logs[number].advance_log_start(60)
    result = audit_below(spus.directory)
    assert (verdicts(result), result.facts["shelves"]) == ({}, 1)
    (copy,) = (each for each in result.copies if each.is_shelf)
    assert (copy.start, copy.end, copy.records) == (0, end, end)
    flip(Path(copy.directory, f"{0:020}.log"), 100)
    (finding,) = (each for copy in audit_below(spus.directory).copies if copy.is_shelf for each in copy.findings)
    assert finding.verdict == "rotten"


# compaction


async def _compact(spus: ThreeSpus, *numbers: int) -> None:
    for number in numbers:
        log = spus.logs[number]
        log.roll()
        await log.sync()
        assert await log.compact(1, log.log_end) is not None


@pytest.fixture
async def table(tmp_path: Path) -> ThreeSpus:
    return await ThreeSpus(tmp_path, config=TABLE).write()


async def test_copies_that_were_compacted_differently_are_equal(table: ThreeSpus) -> None:
    await _compact(table, 1)
    assert verdicts(audit_below(table.directory)) == {}
    for number in (1, 2, 3):
        fill(table.logs[number], 30, keys=3)
    await table.commit()
    await _compact(table, 2)
    result = audit_below(table.directory)
    assert verdicts(result) == {}
    assert row(result, 1).records < row(result, 3).records


async def test_transactions_that_one_copy_has_compacted_are_no_difference(table: ThreeSpus) -> None:
    for log in table.logs.values():
        for number in range(12):
            append_in_transaction(log, number % 3, [b"value"] * 2, key=b"key")
            end_transaction(log, number % 3, is_commit=number % 4 > 0)
        fill(log, 60, keys=3)
    await table.commit()
    markers = row(audit_below(table.directory), 1).batches
    log = table.logs[1]
    log.roll()
    for now_ms in (START_MS, START_MS + 10**10, START_MS + 2 * 10**10):
        fill(log, 10, keys=3)  # beyond the high watermark
        log.roll()
        await log.sync()
        await log.compact(now_ms, log.log_end)
        result = audit_below(table.directory)
        assert verdicts(result) == {}
    assert row(result, 1).batches < markers - 12, "not even markers are left"


async def test_a_flipped_bit_in_a_compacted_segment_is_found(table: ThreeSpus) -> None:
    await _compact(table, 1, 2, 3)
    for position in (7, 15, 18, 40, 58, -1):
        flip(table.segments(2)[0], position)
        assert verdicts(audit_below(table.directory)).keys() == {2}, position
        flip(table.segments(2)[0], position)
    assert verdicts(audit_below(table.directory)) == {}


async def test_a_gap_before_the_first_compaction_or_in_the_open_segment_is_missing(table: ThreeSpus) -> None:
    (manifest,) = table.directory.glob("spu-2/topics/events/*/0/manifest")
    manifest.unlink()
    second = table.segments(2)[1]
    content = second.read_bytes()
    size = read_header(content).size
    second.write_bytes(content[size:])
    assert verdicts(audit_below(table.directory)) == {2: "missing"}


# recovery


def _control(log: Log, batch: bytearray) -> None:
    log.append(memoryview(batch), read_header(batch))


async def _recovered(spus: ThreeSpus, *, has_hole: bool = True) -> None:
    """Gives each copy a recovered end: its last batches, a hole, and a bridge; SPU 3 missed the stamps."""
    for number, log in spus.logs.items():
        end = log.log_end
        append(log, [(b"key", b"recovered")] * 5, leader_epoch=0)
        if number != 3:
            await log.restamp(end, end + 5, 4)
        if has_hole:
            _control(log, control_batches.hole(end + 5, end + 10, 4))
        _control(log, control_batches.bridge(log.log_end, 4))
        log.roll()
        fill(log, 20, leader_epoch=4)
    await spus.commit()


async def test_a_recovery_with_hole_bridge_and_missed_stamps_is_healthy(spus: ThreeSpus) -> None:
    await _recovered(spus)
    assert verdicts(audit_below(spus.directory)) == {}


async def test_a_forged_epoch_is_found_beside_a_recovery(spus: ThreeSpus) -> None:
    await _recovered(spus)
    flip(spus.segments(1)[-1], 15, 4 ^ 9)
    assert verdicts(audit_below(spus.directory)) == {1: "diverged"}


async def test_a_hole_outside_a_recovery_is_found(spus: ThreeSpus) -> None:
    for log in spus.logs.values():
        _control(log, control_batches.hole(log.log_end, log.log_end + 10, 0))
        fill(log, 20)
    await spus.commit()
    found = audit_below(spus.directory)
    assert verdicts(found) == dict.fromkeys((1, 2, 3), "hole outside a recovery")
    await _recovered(spus)
    assert verdicts(audit_below(spus.directory)) == dict.fromkeys((1, 2, 3), "hole outside a recovery")


async def test_a_bridge_that_one_copy_lacks_is_missing(spus: ThreeSpus) -> None:
    await _recovered(spus)
    bridged = spus.segments(2)[-2]
    bridged.write_bytes(bridged.read_bytes()[:-78])
    assert verdicts(audit_below(spus.directory)) == {2: "missing bridge"}
    bridged.write_bytes(bridged.read_bytes()[:-200])
    found = row(audit_below(spus.directory), 2)
    assert [str(each.verdict) for each in found.findings] == ["missing", "missing bridge"]


async def test_what_cannot_be_read_is_an_error(spus: ThreeSpus) -> None:
    (manifest,) = spus.directory.glob("spu-2/topics/events/*/0/manifest")
    manifest.write_bytes(manifest.read_bytes().replace(b'"version":1', b'"version":7'))
    result = audit_below(spus.directory)
    assert verdicts(result) == {2: "rotten"}
    with pytest.raises(JobError, match="does not exist"):
        audit_below(spus.directory / "none")
