"""Proves from facts that an archive has every committed record of its topics exactly once.

The facts come from the manifest, from the Parquet files, and from the broker or from segments. Tasks check chunks,
because a chunk may have millions of records; the driver puts the proofs of chunks together.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from tailrace.pipeline.archive.manifest.archive_manifest import ArchivedPartition, Chunk, DataFile
from tailrace.pipeline.archive.manifest.offset_runs import Run, Runs, common, count, merged, runs_text, without
from tailrace.pipeline.archive.manifest.rollup_sums import add, rollup_text

PROBLEMS_MAX = 20
"""How many problems of a chunk, and of a partition, are told."""


class FileFindings(Struct, frozen=True):
    """What a reader found in a file of a chunk."""

    path: str
    fault: str = ""
    """Why the records could not be read, such as "is missing"; empty if they could."""
    records: int = 0
    rollup: int = 0
    runs: tuple[Run, ...] = ()
    """The offsets, and an offset twice if two rows have it."""
    is_changed: bool = False
    """Whether the file has another checksum than the manifest says."""
    strays: int = 0
    """The number of rows that belong to another topic, partition or date."""


class LogFindings(Struct, frozen=True):
    """What the log, at the broker or in segments, has of the offsets of a chunk."""

    fault: str = ""
    """Why the log could not be read, as a sentence; empty if it could."""
    end: int = 0
    """The offset after the last committed one."""
    runs: tuple[Run, ...] = ()
    """The offsets of the records."""
    is_compacted: bool = False
    """Whether compaction may have removed records since they were archived."""
    deleted: tuple[Run, ...] = ()
    """The offsets that retention or DeleteRecords has removed since."""
    never: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    """The offsets that never were committed records, by reason, such as the holes that a recovery wrote."""
    common_rollup: int = 0
    """The roll-up, at the broker, of the records that both have."""
    archive_rollup: int = 0
    """The roll-up, in the archive, of the records that both have."""
    differing: tuple[Run, ...] = ()
    """The offsets whose records are not the same."""


class ChunkProof(Struct, frozen=True):
    """What a task found out about a chunk."""

    gaps: Mapping[str, int] = field(default_factory=dict)
    """How many offsets have no record, by reason."""
    compared: int = 0
    """How many records were compared with those of the log."""
    gone: int = 0
    """How many records only the archive still has."""
    log_end: int | None = None
    """The offset after the last committed one, if the log was read."""
    problems: tuple[str, ...] = ()
    """Sentences; none if the chunk is right."""


class PartitionProof(Struct, frozen=True):
    """The proof for a partition: a row of the report."""

    topic: str
    topic_id: str
    partition: int
    first: int
    """The first offset that the archive covers."""
    last: int
    """The last offset that the archive covers."""
    records: int
    gaps: Mapping[str, int]
    """How many offsets in between have no record, by reason."""
    chunks: int
    files: int
    rollup: int
    compared: int
    gone: int
    behind: int | None
    """How many committed offsets the archive has not reached; None if the log was not read."""
    problems: tuple[str, ...] = ()

    @property
    def is_proven(self) -> bool:
        return not self.problems


def check_chunk(chunk: Chunk, files: Sequence[FileFindings], log: LogFindings | None = None) -> ChunkProof:
    """Checks one chunk: its files against the manifest, its offsets, and its records against those of the log."""
    by_path = {each.path: each for each in files}
    read = [(file, by_path.get(file.path, FileFindings(file.path, "was not read"))) for file in chunk.files]
    problems = [problem for file, found in read for problem in _file_problems(file, found)]
    gaps = Counter[str]()
    for gap in chunk.gaps:
        gaps[gap.why] += gap.last - gap.first + 1
    problems += _sum_problems(chunk)
    where = f"{chunk.topic}/{chunk.partition}"
    if any(found.fault for _, found in read):
        # Without its records, the offsets of a file would all be missing.
        return ChunkProof(gaps, problems=_limited(problems))
    runs, twice = merged(run for _, found in read for run in found.runs)
    problems += _offset_problems(where, chunk, runs, twice)
    if log is None:
        return ChunkProof(gaps, problems=_limited(problems))
    if log.fault:
        return ChunkProof(gaps, problems=_limited([*problems, log.fault]))
    problems += _log_problems(where, chunk, runs, log)
    compared = count(common(runs, log.runs))
    return ChunkProof(gaps, compared, count(runs) - compared, log.end, _limited(problems))


def _file_problems(file: DataFile, found: FileFindings) -> list[str]:
    if found.fault:
        return [f"{file.path} {found.fault}"]
    problems = []
    if found.records != file.records:
        problems.append(f"{file.path} has {found.records} records, and the manifest says {file.records}")
    elif found.rollup != file.rollup:
        problems.append(
            f"{file.path} has changed: its roll-up is {rollup_text(found.rollup)}, and the manifest says "
            f"{rollup_text(file.rollup)}"
        )
    elif found.is_changed:
        problems.append(f"{file.path} has changed: its records are the same, and its checksum is not")
    if found.runs and (found.runs[0][0], max(last for _, last in found.runs)) != (file.first, file.last):
        problems.append(f"{file.path} has other offsets than the manifest says, {file.first} to {file.last}")
    if found.strays:
        problems.append(f"{file.path} has {found.strays} records of another topic, partition or date")
    return problems


def _sum_problems(chunk: Chunk) -> list[str]:
    """Compares what the manifest says about a chunk with what it says about its files."""
    where = _chunk_text(chunk)
    problems = []
    records = sum(file.records for file in chunk.files)
    if records != chunk.records:
        problems.append(f"{where} has {chunk.records} records in the manifest, and its files have {records}")
    if add(*(file.rollup for file in chunk.files)) != chunk.rollup:
        problems.append(f"{where} has another roll-up in the manifest than its files together")
    return problems


def _offset_problems(where: str, chunk: Chunk, runs: Runs, twice: Runs) -> list[str]:
    """Checks that each offset of the chunk is one record or is explained by one gap."""
    whole = [(chunk.start, chunk.end - 1)] if chunk.end > chunk.start else []
    gaps, gaps_twice = merged((gap.first, gap.last) for gap in chunk.gaps)
    bounds = f"chunk, {chunk.start} to {chunk.end - 1}"
    found = [
        (twice, "occurs more than once", "occur more than once"),
        (gaps_twice, "is explained twice as a gap", "are explained twice as gaps"),
        (without(runs, whole), f"lies outside of its {bounds}", f"lie outside of their {bounds}"),
        (without(gaps, whole), f"is a gap outside of its {bounds}", f"are gaps outside of their {bounds}"),
        (
            common(runs, gaps),
            "has a record, and the manifest says that it has none",
            "have records, and the manifest says that they have none",
        ),
        (
            without(whole, merged([*runs, *gaps])[0]),
            "has no record, and nothing explains it",
            "have no record, and nothing explains it",
        ),
    ]
    return [_about(where, those, one, many) for those, one, many in found if those]


def _log_problems(where: str, chunk: Chunk, runs: Runs, log: LogFindings) -> list[str]:
    """Compares the records of the chunk with those of the log, as far as both can have them."""
    in_log = [(chunk.start, log.end - 1)] if chunk.start < log.end else []
    only_here = without(without(common(runs, in_log), log.runs), log.deleted)
    removed = [run for runs_of_reason in log.never.values() for run in runs_of_reason]
    problems = []
    if chunk.end > log.end:
        problems.append(f"{where}: the log ends at offset {log.end}, and the archive has offsets up to {chunk.end - 1}")
    found = [
        (
            without(log.runs, runs),
            "is missing, and the log has its record",
            "are missing, and the log has their records",
        ),
        *(
            (
                common(only_here, those),
                f"has a record, and the log says why it has none: {why}",
                f"have records, and the log says why it has none: {why}",
            )
            for why, those in log.never.items()
        ),
        (
            [] if log.is_compacted else without(only_here, merged(removed)[0]),
            "has no record in the log, which is not compacted",
            "have no record in the log, which is not compacted",
        ),
        (log.differing, "has another record than the log", "have other records than the log"),
    ]
    problems += [_about(where, those, one, many) for those, one, many in found if those]
    if not log.differing and log.common_rollup != log.archive_rollup:
        problems.append(
            f"{where}: the roll-up of the log is {rollup_text(log.common_rollup)}, and that of the archive for the "
            f"same offsets is {rollup_text(log.archive_rollup)}"
        )
    return problems


def prove_partition(
    partition: ArchivedPartition, chunks: Iterable[tuple[Chunk, ChunkProof]], position: int
) -> PartitionProof:
    """Puts the proofs of all chunks of a partition together. `position` is where the manifest says that it ends."""
    ordered = sorted(chunks, key=lambda pair: (pair[0].start, pair[0].end))
    where = f"{partition.topic}/{partition.partition}"
    problems: list[str] = []
    gaps = Counter[str]()
    epoch = -1
    for chunk, proof in ordered:
        problems += proof.problems
        gaps.update(proof.gaps)
        if 0 <= chunk.epoch_first < epoch:
            problems.append(
                f"{where}: the leader epoch falls from {epoch} to {chunk.epoch_first} at offset {chunk.start}"
            )
        epoch = max(epoch, chunk.epoch_last)
    covered, twice = merged((chunk.start, chunk.end - 1) for chunk, _ in ordered)
    end = covered[-1][1] + 1 if covered else partition.start
    if twice:
        problems.append(f"{where}: {runs_text(twice)} are in two chunks of the manifest")
    if missing := without([(partition.start, end - 1)], covered) if covered else []:
        problems.append(f"{where}: {runs_text(missing)} are in no chunk of the manifest")
    if early := without(covered, [(partition.start, end - 1)]):
        problems.append(f"{where}: {runs_text(early)} lie before the first offset of the archive, {partition.start}")
    if position != end:
        problems.append(f"{where}: the manifest has chunks up to offset {end}, and says that it ends at {position}")
    ends = [proof.log_end for _, proof in ordered if proof.log_end is not None]
    return PartitionProof(
        topic=partition.topic,
        topic_id=partition.topic_id,
        partition=partition.partition,
        first=partition.start,
        last=end - 1,
        records=sum(chunk.records for chunk, _ in ordered),
        gaps=dict(sorted(gaps.items())),
        chunks=len(ordered),
        files=sum(len(chunk.files) for chunk, _ in ordered),
        rollup=add(*(chunk.rollup for chunk, _ in ordered)),
        compared=sum(proof.compared for _, proof in ordered),
        gone=sum(proof.gone for _, proof in ordered),
        behind=max(0, max(ends) - end) if ends else None,
        problems=_limited(problems),
    )


def verdict(partitions: Sequence[PartitionProof], faults: Sequence[str], *, is_offline: bool) -> str:
    """Returns the result as one sentence. `faults` are problems of the archive as a whole."""
    problems = len(faults) + sum(len(each.problems) for each in partitions)
    if problems:
        wrong = sum(not each.is_proven for each in partitions)
        return f"{_count(problems, 'problem')} in {wrong} of {_count(len(partitions), 'partition')}"
    records = sum(each.records for each in partitions)
    if not partitions:
        return "the archive is empty"
    proven = f"the archive has {_count(records, 'record')} of {_count(len(partitions), 'partition')} exactly once"
    if is_offline:
        return f"{proven}, as its manifest says; without --offline they are also compared with the broker"
    compared, gone = sum(each.compared for each in partitions), sum(each.gone for each in partitions)
    same = f"{_count(compared, 'record')} equal {'that' if compared == 1 else 'those'} of the log"
    return f"{proven}, and {same}" + (f", which does not have {_count(gone, 'record')} any more" if gone else "")


def _chunk_text(chunk: Chunk) -> str:
    return f"{chunk.topic}/{chunk.partition}, chunk {chunk.start} to {chunk.end - 1},"


def _about(where: str, runs: Runs, one: str, many: str) -> str:
    return f"{where}: {runs_text(runs)} {one if count(runs) == 1 else many}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _limited(problems: Sequence[str]) -> tuple[str, ...]:
    if len(problems) <= PROBLEMS_MAX:
        return tuple(problems)
    return (*problems[: PROBLEMS_MAX - 1], f"and {len(problems) - PROBLEMS_MAX + 1} more problems")
