from collections.abc import Callable, Sequence
from pathlib import Path

from archive_files import DATE, archived_rows, write_archive, write_chunk
from spus import SteadyClock

from tailrace.pipeline.archive.chunks.chunk_writing import WrittenChunks
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk
from tailrace.pipeline.archive.proofs.chunk_checking import prove_chunk
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.archive.upkeep.archive_compaction import compact_folder
from tailrace.pipeline.archive.upkeep.chunk_merging import MergeTask, merge_chunks
from tailrace.pipeline.jobs.job_results import JobResult
from tailrace.runtime.chance import RandomChance

_TARGET = 2**20


def _small_chunks(root: Path, count: int) -> list[Chunk]:
    return [
        write_chunk(root, 10 * each, 10 * each + 10, {DATE: archived_rows(range(10 * each, 10 * each + 9))})
        for each in range(count)
    ]


def _run(tasks: Sequence[MergeTask]) -> list[WrittenChunks]:
    return [merge_chunks(each) for each in tasks]


def _compact(folder: ArchiveFolder, run: Callable[[Sequence[MergeTask]], Sequence[WrittenChunks]] = _run) -> JobResult:
    return compact_folder(folder, _TARGET, run, SteadyClock(), RandomChance(1))


def _files(root: Path) -> set[Path]:
    return set(root.rglob("*.parquet"))


def test_small_chunks_become_one_and_the_proof_stays_the_same(tmp_path: Path) -> None:
    chunks = _small_chunks(tmp_path, 5)
    folder = write_archive(tmp_path, *chunks)
    result = _compact(folder)
    assert result.verdict == "1 group of small chunks became one chunk"
    assert dict(result.facts) == {"files before": 5, "files after": 1}
    (merged,) = folder.load().manifest.chunks
    assert (merged.start, merged.end, merged.records) == (0, 50, 45)
    assert prove_chunk(str(tmp_path), merged, None).problems == ()
    assert all((tmp_path / each.files[0].path).exists() for each in chunks), "readers may still read them"
    assert _compact(folder).verdict == "every chunk is large enough, or has no small neighbour"
    assert folder.load().seq == 6


def test_records_that_are_archived_meanwhile_are_kept(tmp_path: Path) -> None:
    folder = write_archive(tmp_path, *_small_chunks(tmp_path, 2))

    def run(tasks: Sequence[MergeTask]) -> list[WrittenChunks]:
        later = write_chunk(tmp_path, 20, 30, {DATE: archived_rows(range(20, 30))})
        assert folder.commit(folder.load(), "aaaaaaaa", 0, chunks_added=[later]) is not None
        return _run(tasks)

    _compact(folder, run)
    assert [(each.start, each.end) for each in folder.load().manifest.chunks] == [(0, 20), (20, 30)]


def test_a_commit_of_another_writer_in_between_is_no_problem(tmp_path: Path) -> None:
    class Raced(ArchiveFolder):
        """An archive to which another writer commits first, whenever somebody commits for the first time."""

        is_raced = False

        def commit(self, *words, **named):  # type: ignore[no-untyped-def]
            if not self.is_raced:
                self.is_raced = True
                later = write_chunk(tmp_path, 20, 30, {DATE: archived_rows(range(20, 30))})
                other = ArchiveFolder(str(tmp_path))
                assert other.commit(other.load(), "aaaaaaaa", 0, chunks_added=[later]) is not None
            return super().commit(*words, **named)

    write_archive(tmp_path, *_small_chunks(tmp_path, 2))
    _compact(Raced(str(tmp_path)))
    assert [(each.start, each.end) for each in ArchiveFolder(str(tmp_path)).load().manifest.chunks] == [
        (0, 20),
        (20, 30),
    ]


def test_the_loser_of_two_compactions_removes_its_files(tmp_path: Path) -> None:
    folder = write_archive(tmp_path, *_small_chunks(tmp_path, 3))
    after_first: set[Path] = set()

    def run(tasks: Sequence[MergeTask]) -> list[WrittenChunks]:
        _compact(ArchiveFolder(str(tmp_path)))
        after_first.update(_files(tmp_path))
        return _run(tasks)

    result = _compact(folder, run)
    assert result.verdict == "no chunk was merged; 1 group had been merged by another compaction meanwhile"
    assert _files(tmp_path) == after_first
    assert len(folder.load().manifest.chunks) == 1
