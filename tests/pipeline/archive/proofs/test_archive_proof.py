from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tailrace.pipeline.archive.manifest.archive_manifest import ArchivedPartition, Chunk, DataFile
from tailrace.pipeline.archive.proofs.archive_proof import (
    PROBLEMS_MAX,
    ChunkProof,
    FileFindings,
    LogFindings,
    PartitionProof,
    check_chunk,
    prove_partition,
    verdict,
)
from tailrace.pipeline.segments.log_gaps import Gap

_ONE = DataFile("data/t/date=2026-11-28/one.parquet", "2026-11-28", 10, 14, 4, 1000, rollup=7)
_TWO = DataFile("data/t/date=2026-11-29/two.parquet", "2026-11-29", 12, 16, 2, 900, rollup=5)
_CHUNK = Chunk(
    topic="t",
    topic_id="an-id",
    partition=3,
    start=10,
    end=18,
    token="0a0b0c0d",
    records=6,
    rollup=12,
    files=(_ONE, _TWO),
    gaps=(Gap(15, 15, "compaction"), Gap(17, 17, "marker")),
    epoch_first=1,
    epoch_last=2,
)
_READ_ONE = FileFindings(_ONE.path, records=4, rollup=7, runs=((10, 11), (13, 14)))
_READ_TWO = FileFindings(_TWO.path, records=2, rollup=5, runs=((12, 12), (16, 16)))
_READ = (_READ_ONE, _READ_TWO)
_LOG = LogFindings(end=20, runs=((10, 14), (16, 16)), is_compacted=False, common_rollup=12, archive_rollup=12)
_UP_TO_40 = ChunkProof(log_end=40)
_PARTITION = ArchivedPartition("t", "an-id", 3, 10)


def _problem(chunk: Chunk = _CHUNK, read: Sequence[FileFindings] = _READ, log: LogFindings | None = _LOG) -> str:
    (found,) = check_chunk(chunk, read, log).problems
    return found


def test_a_chunk_whose_offsets_are_records_or_gaps_is_right() -> None:
    assert check_chunk(_CHUNK, _READ, _LOG) == ChunkProof(
        gaps={"compaction": 1, "marker": 1}, compared=6, gone=0, log_end=20
    )
    assert check_chunk(_CHUNK, _READ) == ChunkProof(gaps={"compaction": 1, "marker": 1})


def test_a_missing_file_is_named() -> None:
    missing = FileFindings(_ONE.path, "is missing")
    assert _problem(read=(missing, _READ_TWO)) == f"{_ONE.path} is missing"
    assert _problem(read=(_READ_TWO,)) == f"{_ONE.path} was not read"


def test_a_flipped_value_is_named_with_its_offset() -> None:
    changed = replace(_READ_ONE, rollup=8)
    log = replace(_LOG, archive_rollup=13, differing=((13, 13),))
    assert check_chunk(_CHUNK, (changed, _READ_TWO), log).problems == (
        f"{_ONE.path} has changed: its roll-up is 0000000000000008, and the manifest says 0000000000000007",
        "t/3: offset 13 has another record than the log",
    )


def test_a_truncated_file_is_named() -> None:
    problems = check_chunk(_CHUNK, (replace(_READ_ONE, records=3, runs=((10, 11), (13, 13))), _READ_TWO)).problems
    assert problems == (
        f"{_ONE.path} has 3 records, and the manifest says 4",
        f"{_ONE.path} has other offsets than the manifest says, 10 to 14",
        "t/3: offset 14 has no record, and nothing explains it",
    )


def test_rows_of_another_partition_or_date_are_found() -> None:
    assert _problem(read=(replace(_READ_ONE, strays=2), _READ_TWO)) == (
        f"{_ONE.path} has 2 records of another topic, partition or date"
    )


def test_an_offset_in_two_files_is_found() -> None:
    chunk = replace(_CHUNK, records=7, files=(replace(_ONE, records=5), _TWO))
    read = (replace(_READ_ONE, records=5, runs=((10, 14),)), _READ_TWO)
    assert _problem(chunk, read) == "t/3: offset 12 occurs more than once"


@pytest.mark.parametrize(
    ("gaps", "problem"),
    [
        ((Gap(15, 15, "compaction"),), "t/3: offset 17 has no record, and nothing explains it"),
        (
            (*_CHUNK.gaps, Gap(13, 14, "hole")),
            "t/3: offsets 13 to 14 have records, and the manifest says that they have none",
        ),
        ((*_CHUNK.gaps, Gap(17, 17, "hole")), "t/3: offset 17 is explained twice as a gap"),
        ((*_CHUNK.gaps, Gap(18, 18, "hole")), "t/3: offset 18 is a gap outside of its chunk, 10 to 17"),
    ],
)
def test_each_offset_is_explained_once(gaps: tuple[Gap, ...], problem: str) -> None:
    assert _problem(replace(_CHUNK, gaps=gaps)) == problem


def test_offsets_outside_of_the_chunk_are_found() -> None:
    chunk = replace(_CHUNK, end=16, gaps=_CHUNK.gaps[:1])
    assert _problem(chunk) == "t/3: offset 16 lies outside of its chunk, 10 to 15"


def test_the_sums_of_a_chunk_are_those_of_its_files() -> None:
    assert "has 7 records in the manifest, and its files have 6" in _problem(replace(_CHUNK, records=7))
    assert "has another roll-up in the manifest than its files together" in _problem(replace(_CHUNK, rollup=1))


def test_a_record_that_only_the_log_has_is_missing() -> None:
    assert _problem(log=replace(_LOG, runs=((10, 16),))) == "t/3: offset 15 is missing, and the log has its record"


def test_records_that_the_log_has_deleted_are_not_compared() -> None:
    proof = check_chunk(_CHUNK, _READ, replace(_LOG, deleted=((10, 12),), runs=((13, 14), (16, 16))))
    assert (proof.problems, proof.compared, proof.gone) == ((), 3, 3)
    proof = check_chunk(_CHUNK, _READ, replace(_LOG, deleted=((10, 17),), runs=()))
    assert (proof.problems, proof.compared, proof.gone) == ((), 0, 6)


def test_compaction_may_remove_records_and_nothing_else_may() -> None:
    log = replace(_LOG, runs=((10, 11), (16, 16)))
    assert _problem(log=log) == "t/3: offsets 12 to 14 have no record in the log, which is not compacted"
    assert check_chunk(_CHUNK, _READ, replace(log, is_compacted=True)).problems == ()


def test_a_record_that_a_recovery_lost_is_a_problem_even_if_the_log_is_compacted() -> None:
    log = replace(_LOG, runs=((10, 11), (16, 16)), never={"hole": ((13, 14),)}, is_compacted=True)
    assert _problem(log=log) == "t/3: offsets 13 to 14 have records, and the log says why it has none: hole"


def test_a_log_that_ends_before_the_archive_is_a_problem() -> None:
    log = replace(_LOG, end=16, runs=((10, 14),))
    assert _problem(log=log) == "t/3: the log ends at offset 16, and the archive has offsets up to 17"


def test_another_rollup_of_the_log_is_a_problem() -> None:
    assert "the roll-up of the log is 0000000000000001" in _problem(log=replace(_LOG, common_rollup=1))


def test_a_log_that_cannot_be_read_proves_nothing() -> None:
    assert _problem(log=LogFindings("t/3 cannot be read: no broker responds")) == (
        "t/3 cannot be read: no broker responds"
    )


def _proven(*chunks: Chunk, position: int, proof: ChunkProof = _UP_TO_40) -> PartitionProof:
    return prove_partition(_PARTITION, [(each, proof) for each in chunks], position)


def test_chunks_that_follow_one_another_are_a_proof() -> None:
    later = replace(_CHUNK, start=18, end=30, epoch_first=2, epoch_last=2)
    proof = _proven(later, _CHUNK, position=30)
    assert proof.is_proven
    assert (proof.first, proof.last, proof.records, proof.files, proof.rollup) == (10, 29, 12, 4, 24)
    assert proof.behind == 10


def test_a_chunk_twice_is_found() -> None:
    again = replace(_CHUNK, token="ffffffff")
    assert _proven(_CHUNK, again, position=18).problems[-1] == "t/3: offsets 10 to 17 are in two chunks of the manifest"


def test_a_missing_chunk_is_found() -> None:
    later = replace(_CHUNK, start=20, end=30)
    assert _proven(_CHUNK, later, position=30).problems == (
        "t/3: the leader epoch falls from 2 to 1 at offset 20",
        "t/3: offsets 18 to 19 are in no chunk of the manifest",
    )
    assert _proven(later, position=30).problems == ("t/3: offsets 10 to 19 are in no chunk of the manifest",)
    early = replace(_CHUNK, start=5, end=10)
    assert _proven(_CHUNK, early, position=18).problems[-1] == (
        "t/3: offsets 5 to 9 lie before the first offset of the archive, 10"
    )


def test_the_position_is_where_the_last_chunk_ends() -> None:
    assert _proven(_CHUNK, position=19).problems == (
        "t/3: the manifest has chunks up to offset 18, and says that it ends at 19",
    )


def test_a_partition_without_chunks_is_proven() -> None:
    proof = prove_partition(_PARTITION, [], 10)
    assert (proof.is_proven, proof.first, proof.last, proof.behind) == (True, 10, 9, None)


def test_problems_are_bounded() -> None:
    many = ChunkProof(problems=tuple(f"problem {each}" for each in range(50)))
    problems = _proven(_CHUNK, position=18, proof=many).problems
    assert (len(problems), problems[-1]) == (PROBLEMS_MAX, "and 31 more problems")


def test_the_verdict_counts() -> None:
    good = _proven(_CHUNK, position=18, proof=ChunkProof(compared=4, gone=2, log_end=18))
    bad = _proven(_CHUNK, position=19)
    assert verdict([good], [], is_offline=False) == (
        "the archive has 6 records of 1 partition exactly once, and 4 records equal those of the log, which does not "
        "have 2 records any more"
    )
    assert verdict([good], [], is_offline=True).startswith(
        "the archive has 6 records of 1 partition exactly once, as its manifest says"
    )
    assert verdict([good, bad], [], is_offline=False) == "1 problem in 1 of 2 partitions"
    assert verdict([good], ["archive.json is missing"], is_offline=True) == "1 problem in 0 of 1 partition"
    assert verdict([], [], is_offline=True) == "the archive is empty"
