"""One segment against its claim. `test_replica_verification.py` flips every bit of a whole replica."""

import pytest
from batch_samples import header_of, make_batch
from msgspec.structs import replace
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.storage.directory.layout import Kind, file_name
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.manifest import SegmentFacts
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import RecoveryReport
from tailrace.storage.verification.segment_verification import Claim, Finding, SegmentVerification

BASE = 10
LOG = f"/r/{file_name(BASE, Kind.LOG)}"
INDEX = f"/r/{file_name(BASE, Kind.INDEX)}"
BATCHES = [make_batch(BASE + number, epoch=2, timestamp=number) for number in range(4)]


class Segment:
    """A segment that is written as a log does, with one batch of 100 bytes for each offset."""

    def __init__(self, *batches: bytearray) -> None:
        self.files = SimulatedFiles()
        self.files.make_directories("/r")
        maker = SegmentMaker(OpenFiles(self.files), "/r", LogConfig(index_interval_bytes=100), RecoveryReport())
        self._segment = maker.new_segment(BASE)
        self.append(*(batches or BATCHES))

    def append(self, *batches: bytearray) -> None:
        for batch in batches:
            self._segment.append(batch, (header_of(batch),))
        self.facts()

    def facts(self) -> SegmentFacts:
        """Returns the facts, and writes the indexes."""
        return self._segment.facts(0)

    @property
    def log(self) -> bytearray:
        return self.files.open(LOG).node.content


def _verified(
    segment: Segment, facts: SegmentFacts | None, *, is_sealed: bool = False, trusted_end: int = 0, path: str = LOG
) -> tuple[SegmentVerification, list[Finding]]:
    claim = Claim(BASE, facts, is_sealed, trusted_end)
    verification = SegmentVerification(segment.files, path, claim, lambda count: None)
    return verification, list(verification.findings())


def _damage(path: str, position: int | None, sentence: str) -> Finding:
    return Finding(path, position, sentence, is_damage=True)


def _note(path: str, position: int | None, sentence: str) -> Finding:
    return Finding(path, position, sentence, is_damage=False)


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize("is_stated", [True, False])
def test_an_intact_segment_has_no_findings(*, is_sealed: bool, is_stated: bool) -> None:
    segment = Segment()
    read: list[int] = []
    is_sealed = is_sealed and is_stated
    claim = Claim(BASE, segment.facts() if is_stated else None, is_sealed, trusted_end=0)
    verification = SegmentVerification(segment.files, LOG, claim, read.append)
    assert list(verification.findings()) == []
    assert (verification.end, verification.epoch, verification.is_damaged) == (14, 2, False)
    assert read == [100] * 4


def test_a_segment_without_its_log_ends_where_it_begins() -> None:
    segment = Segment()
    segment.files.remove(LOG)
    verification, found = _verified(segment, None)
    assert found == [_damage(LOG, None, "cannot be opened: no such simulated file")]
    assert (verification.end, verification.is_damaged) == (BASE, True)


# what the manifest covers


def test_a_sealed_segment_neither_shrinks_nor_grows() -> None:
    segment = Segment()
    facts = segment.facts()
    segment.log.extend(make_batch(14, epoch=2))
    assert _verified(segment, facts, is_sealed=True)[1][0] == _damage(
        LOG, 400, "has 500 bytes; when it was sealed it had 400"
    )
    assert _verified(segment, facts)[1] == []
    del segment.log[300:]
    for is_sealed, then in ((True, "sealed"), (False, "closed")):
        _, (finding, *_) = _verified(segment, facts, is_sealed=is_sealed)
        assert finding == _damage(LOG, 300, f"has 300 bytes; when it was {then} it had 400")


def test_damage_to_a_sealed_segment_does_not_look_like_a_gap_before_the_next() -> None:
    segment = Segment()
    facts = segment.facts()
    segment.log[300:] = bytes(100)
    verification, found = _verified(segment, facts, is_sealed=True)
    assert [finding.position for finding in found] == [300]
    assert (verification.end, verification.epoch) == (14, 2)


@pytest.mark.parametrize("name", ["end", "epoch", "checksum", "first_timestamp", "max_timestamp"])
def test_each_thing_that_the_manifest_states_is_compared(name: str) -> None:
    segment = Segment()
    facts = segment.facts()
    stated = getattr(facts, name) + 1
    _, found = _verified(segment, replace(facts, **{name: stated}), is_sealed=True)
    if name == "epoch":
        assert found[0] == _damage(LOG, 0, "leader epoch 2 in a segment of epoch 3")
    else:
        sentence = f"its {name.replace('_', ' ')} is {getattr(facts, name)}; the manifest says {stated}"
        assert found == [_damage(LOG, None, sentence)]


def test_a_closed_segment_is_compared_up_to_its_end_at_the_close() -> None:
    segment = Segment(*BATCHES[:2])
    closed = segment.facts()
    segment.append(*BATCHES[2:])
    assert _verified(segment, closed)[1] == []
    _, found = _verified(segment, replace(closed, checksum=closed.checksum ^ 1))
    assert [finding.is_damage for finding in found] == [True]
    _, found = _verified(segment, replace(closed, size=closed.size + 1))
    assert found == [_damage(LOG, 201, "no batch ends where one ended when the manifest was written")]


# what it does not cover


@pytest.mark.parametrize(("trusted_end", "is_damage"), [(0, False), (13, False), (14, True)])
def test_the_end_may_be_torn_unless_it_was_on_the_disk(*, trusted_end: int, is_damage: bool) -> None:
    segment = Segment()
    del segment.log[-1:]
    verification, (finding, *_) = _verified(segment, None, trusted_end=trusted_end)
    assert (finding.path, finding.position, finding.is_damage) == (LOG, 300, is_damage)
    assert verification.is_damaged == is_damage
    assert verification.end == 13


def test_batches_after_a_wrong_checksum_count_only_if_synced() -> None:
    segment = Segment()
    segment.log[199] ^= 1
    reason = "the checksum of the batch at offset 11 does not match"
    verification, found = _verified(segment, None)
    cut = _note(LOG, 100, f"the last 300 bytes will be truncated when the log is opened, as after a crash: {reason}")
    assert (found, verification.end) == ([cut], 11)
    verification, found = _verified(segment, None, trusted_end=12)
    assert (found, verification.end) == ([_damage(LOG, 100, reason)], 14)


def test_missing_offsets_are_a_note_because_compaction_removes_some() -> None:
    segment = Segment(BATCHES[0], BATCHES[3])
    facts = segment.facts()
    gap = _note(LOG, 100, "offset 13 follows 10: the offsets between are missing, which is normal after compaction")
    assert _verified(segment, None)[1] == [gap]
    assert _verified(segment, facts, is_sealed=True)[1] == []


def test_an_offset_that_jumps_is_blamed_and_not_the_next_one() -> None:
    segment = Segment(BATCHES[0], make_batch(1000, epoch=2), BATCHES[2])
    _, found = _verified(segment, None, trusted_end=2000)
    assert [finding for finding in found if finding.is_damage] == [
        _damage(LOG, 100, "offset 1000 comes before offset 12")
    ]


def test_unreadable_bytes_are_damage_even_where_the_end_may_be_torn() -> None:
    class BadSector(SimulatedFile):
        def read_at(self, position: int, count: int) -> bytes:
            raise OSError(5, "a sector is bad")

    class BadDisk(SimulatedFiles):
        def open(self, path: str, *, create: bool = False) -> SimulatedFile:
            return BadSector(self, path, super().open(path, create=create).node)

    segment = Segment()
    bad = BadDisk()
    bad.make_directories("/r")
    bad.open(LOG, create=True).append(segment.log)
    segment.files = bad
    assert _verified(segment, None)[1] == [_damage(LOG, 0, "the file cannot be read: a sector is bad")]


# its indexes


def test_a_wrong_entry_of_an_unstated_index_is_a_note() -> None:
    segment = Segment()
    facts = segment.facts()
    index = segment.files.open(INDEX).node.content
    index[8] ^= 1
    sentence = "entry 1 does not agree with the log; it will be rebuilt from the log"
    assert _verified(segment, None)[1] == [_note(INDEX, 8, sentence)]
    assert _verified(segment, facts, is_sealed=True)[1] == [_damage(INDEX, 8, sentence)]


def test_an_entry_beyond_the_log_agrees_with_nothing() -> None:
    segment = Segment()
    count = segment.facts().index_entries
    index = segment.files.open(INDEX)
    index.append(b"\xff" * 8)
    _, (finding,) = _verified(segment, None)
    assert (finding.path, finding.position) == (INDEX, count * 8)


def test_a_log_that_is_damaged_does_not_accuse_its_indexes() -> None:
    segment = Segment()
    facts = segment.facts()
    segment.log[107] ^= 0x40  # The low byte of the second batch's offset, which its index entry has as well.
    assert {finding.path for finding in _verified(segment, facts, is_sealed=True)[1]} == {LOG}
    assert {finding.path for finding in _verified(segment, None)[1]} == {LOG}


def test_the_indexes_of_an_unfinished_replacement_are_not_compared() -> None:
    """They are still those of the segment that it replaces."""
    segment = Segment()
    facts = segment.facts()
    segment.files.rename(LOG, LOG + ".cleaned")
    segment.files.remove(INDEX)
    assert _verified(segment, facts, is_sealed=True, path=LOG + ".cleaned")[1] == []
