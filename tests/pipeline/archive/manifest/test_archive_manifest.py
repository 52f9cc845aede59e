import pytest
from archive_samples import ARCHIVE, OTHER_ID, TOPIC_ID, archived_partition, chunk
from msgspec.structs import replace

from tailrace.pipeline.archive.manifest import archive_manifest
from tailrace.pipeline.archive.manifest.archive_layout import commit_name
from tailrace.pipeline.archive.manifest.archive_manifest import (
    Chunk,
    Commit,
    Head,
    Link,
    Manifest,
    ManifestError,
    check_link,
    checksum,
    decode,
    encode,
    fold,
    head_of,
    next_commit,
)
from tailrace.pipeline.segments.log_gaps import Gap


class Chain:
    """Commits as a writer makes them."""

    def __init__(self) -> None:
        self.manifest = Manifest()
        self.head: Head | None = None
        self.commits: list[Commit] = []

    def add(self, *chunks: Chunk, removes: tuple[str, ...] = (), joins: tuple[int, ...] = ()) -> Commit:
        commit = next_commit(
            ARCHIVE,
            self.head,
            self.manifest,
            1000,
            partitions_added=[archived_partition(each) for each in joins],
            chunks_added=chunks,
            chunks_removed=removes,
        )
        content = encode(commit)
        self.head = head_of(commit, commit_name(commit.seq, "5f3a9c01"), content, self.manifest)
        self.commits.append(decode(content, Commit, "x"))
        return commit


def test_an_archive_without_a_head_is_empty() -> None:
    manifest = fold([], None)
    assert (manifest.seq, manifest.chunks, manifest.positions()) == (0, [], {})


def test_commits_fold_to_chunks_and_positions() -> None:
    chain = Chain()
    chain.add(chunk(0, 10), joins=(0, 1))
    chain.add(chunk(10, 15), chunk(0, 3, 1))
    manifest = fold(chain.commits, chain.head)
    assert [(each.partition, each.start, each.end) for each in manifest.chunks] == [(0, 0, 10), (0, 10, 15), (1, 0, 3)]
    assert manifest.positions() == {TOPIC_ID: {0: 15, 1: 3}}
    assert [each.first for each in manifest.files()] == [0, 10, 0]
    assert chain.head is not None and chain.head.positions == manifest.positions()
    assert manifest.chunks_of(TOPIC_ID, 1) == [chunk(0, 3, 1)]


def test_each_commit_names_the_one_before_it() -> None:
    chain = Chain()
    first = chain.add(joins=(0,))
    second = chain.add(chunk(0, 10))
    assert first.previous is None
    assert second.previous == Link("0000000001-5f3a9c01.json", checksum(encode(first)))
    check_link(encode(first), second.previous)
    with pytest.raises(ManifestError, match="another checksum"):
        check_link(encode(second), second.previous)


def test_compaction_replaces_chunks() -> None:
    chain = Chain()
    chain.add(chunk(0, 10), chunk(10, 20), chunk(20, 30), joins=(0,))
    merged = chunk(0, 20, token="aaaaaaaa")
    chain.add(merged, removes=(chunk(0, 10).id, chunk(10, 20).id))
    assert fold(chain.commits, chain.head).chunks == [merged, chunk(20, 30)]


def test_folding_begins_with_the_last_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_manifest, "SNAPSHOT_COMMITS", 3)
    chain = Chain()
    chain.add(joins=(0,))
    for start in range(0, 50, 10):
        chain.add(chunk(start, start + 10))
    assert [each.snapshot is not None for each in chain.commits] == [False, False, True, False, False, True]
    whole = fold(chain.commits, chain.head)
    assert fold(chain.commits[2:], chain.head).chunks == whole.chunks == fold(chain.commits[5:], chain.head).chunks
    with pytest.raises(ManifestError, match="commit 4 follows commit 0"):
        fold(chain.commits[3:5], chain.head)


def test_another_topic_id_is_another_sequence_of_offsets() -> None:
    chain = Chain()
    chain.add(chunk(0, 10), joins=(0,))
    again = chunk(0, 5, topic_id=OTHER_ID)
    chain.commits.append(
        next_commit(
            ARCHIVE,
            chain.head,
            chain.manifest,
            0,
            partitions_added=[archived_partition(topic_id=OTHER_ID)],
            chunks_added=[again],
        )
    )
    assert chain.manifest.positions() == {TOPIC_ID: {0: 10}, OTHER_ID: {0: 5}}


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ((chunk(0, 10), chunk(5, 12)), "orders/0 has the offsets 5 to 9 twice"),
        ((chunk(0, 10), chunk(12, 15)), "orders/0 has the offsets 10 to 11 nowhere"),
        ((chunk(3, 10),), "orders/0 has the offsets 0 to 2 nowhere"),
        ((chunk(0, 10, 7),), "has no place"),
        ((chunk(0, 10), chunk(0, 10)), "has no place"),
        ((replace(chunk(0, 10), records=9),), "has 9 records and 0 offsets without one"),
        ((replace(chunk(0, 10), rollup=9),), "has another roll-up than its files"),
        ((replace(chunk(0, 10), end=0),), "is empty"),
        ((replace(chunk(0, 9), end=10, gaps=(Gap(9, 10, "hole"),)),), "has gaps out of order"),
        ((replace(chunk(0, 10), start=5, records=5),), "files"),
    ],
)
def test_chunks_that_contradict_are_refused(chunks: tuple[Chunk, ...], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        Chain().add(*chunks, joins=(0,))


def test_chunks_with_gaps_are_whole() -> None:
    gaps = (Gap(2, 2, "hole"), Gap(3, 5, "compaction"), Gap(9, 9, "marker"))
    chunk(0, 10, gaps=gaps).check()
    chunk(0, 3, gaps=(Gap(0, 2, "deleted"),)).check()


def test_a_head_that_says_something_else_is_refused() -> None:
    chain = Chain()
    chain.add(chunk(0, 10), joins=(0,))
    assert chain.head is not None
    with pytest.raises(ManifestError, match="the commits say something else"):
        fold(chain.commits, replace(chain.head, positions={TOPIC_ID: {0: 11}}))
    with pytest.raises(ManifestError, match="the commits say something else"):
        fold([], chain.head)


def test_a_chunk_that_is_not_there_cannot_be_removed() -> None:
    chain = Chain()
    chain.add(chunk(0, 10), joins=(0,))
    with pytest.raises(ManifestError, match="commit 2 removes the chunk"):
        chain.add(removes=(chunk(0, 11).id,))


def test_documents_of_other_versions_are_refused() -> None:
    with pytest.raises(ManifestError, match=r"a.json has format version 7, and this Tailrace knows 1"):
        decode(b'{"version": 7}', Commit, "a.json")
    for content in (b"", b"{}", b'{"version": 1}', encode(ARCHIVE)[:-3]):
        with pytest.raises(ManifestError, match=r"a.json is damaged"):
            decode(content, Commit, "a.json")


def test_large_roll_ups_survive() -> None:
    large = replace(chunk(0, 10), rollup=2**64 - 1, files=(replace(chunk(0, 10).files[0], rollup=2**64 - 1),))
    chain = Chain()
    chain.add(large, joins=(0,))
    assert fold(chain.commits, chain.head).chunks == [large]
