"""The manifest of an archive: which files count, and what they hold.

The manifest is a chain of commits. Each is an immutable document with the checksum of the one before it. The head names
the last one. A reader folds the commits from the last snapshot on. Files that the folded manifest does
not name do not exist for readers: they are leftovers of attempts that never became part of the archive.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.log_gaps import Gap

from .archive_layout import chunk_id
from .rollup_sums import add

FORMAT_VERSION = 1
SNAPSHOT_COMMITS = 100
"""After how many commits a commit carries all chunks, so that readers need no older ones."""

CHUNK_BYTES = 64 * 2**20
"""How many bytes of batches a chunk has at most, except that a chunk has at least one piece."""

HeadPlace = Literal["files", "sc"]
Positions = Mapping[str, Mapping[int, int]]
"""The next offset of each partition, by topic id."""
PartitionKey = tuple[str, int]
"""A topic id and a partition."""

_Document = TypeVar("_Document", bound=Struct)


class ManifestError(JobError):
    """A manifest that is damaged, or that this version cannot read; the message is one sentence."""

    def __reduce__(self) -> tuple[type["ManifestError"], tuple[str]]:
        return type(self), (str(self),)


class Archive(Struct, frozen=True):
    """The document `archive.json`: which archive this is, and where its head lives."""

    id: str
    """A UUID."""
    head: HeadPlace
    sc: tuple[str, ...] = ()
    """The addresses of the Streaming Controller whose store has the head."""
    version: int = FORMAT_VERSION


class DataFile(Struct, frozen=True):
    """A Parquet file."""

    path: str
    """Its path below the archive."""
    date: str
    first: int
    last: int
    records: int
    bytes: int
    rollup: int
    """The sum of its records' hashes: see record_rollup."""
    sha256: str | None = None


class Chunk(Struct, frozen=True):
    """The offsets `[start, end)` of a partition. Each is the offset of a record in its files, or in a gap."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    token: str
    """The attempt that wrote the chunk."""
    records: int
    rollup: int
    files: tuple[DataFile, ...] = ()
    """The files of the chunk, in the order of dates."""
    gaps: tuple[Gap, ...] = ()
    epoch_first: int = -1
    epoch_last: int = -1

    @property
    def id(self) -> str:
        return chunk_id(self.topic_id, self.partition, self.start, self.end, self.token)

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition

    def check(self) -> None:
        """Raises ManifestError if the chunk contradicts itself."""
        missing = sum(gap.last + 1 - gap.first for gap in self.gaps)
        ends = [self.start - 1, *(bound for gap in self.gaps for bound in (gap.first, gap.last)), self.end]
        faults = {
            "is empty": self.start >= self.end,
            "has gaps out of order": any(
                low > high or (low == high and place % 2 == 0) for place, (low, high) in enumerate(pairwise(ends))
            ),
            f"has {self.records} records and {missing} offsets without one": self.records + missing
            != self.end - self.start,
            "has another number of records than its files": self.records != sum(each.records for each in self.files),
            "has another roll-up than its files": self.rollup != add(*(each.rollup for each in self.files)),
            "has a file with offsets outside": any(
                not self.start <= each.first <= each.last < self.end for each in self.files
            ),
        }
        for what, is_wrong in faults.items():
            if is_wrong:
                raise ManifestError(f"the chunk {self.id} of {self.topic} {what}: the manifest is damaged")


class ArchivedPartition(Struct, frozen=True):
    """A partition, and the offset with which the archive begins."""

    topic: str
    topic_id: str
    partition: int
    start: int

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition


class Link(Struct, frozen=True):
    """A commit's file in the directory of the manifest."""

    name: str
    sha256: str


class Snapshot(Struct, frozen=True):
    """The whole archive after a commit."""

    partitions: tuple[ArchivedPartition, ...]
    chunks: tuple[Chunk, ...]


class Commit(Struct, frozen=True):
    """One change of the archive. It takes effect as a whole when the head names it."""

    archive: str
    """The id of the archive."""
    seq: int
    """The number of the commit; 1 for the first one."""
    time_ms: int
    previous: Link | None = None
    partitions_added: tuple[ArchivedPartition, ...] = ()
    chunks_added: tuple[Chunk, ...] = ()
    chunks_removed: tuple[str, ...] = ()
    """Ids of chunks whose offsets are in chunks that this commit adds."""
    snapshot: Snapshot | None = None
    """The archive after this commit, in every hundredth commit."""
    version: int = FORMAT_VERSION


class Head(Struct, frozen=True):
    """The last commit, and how far the archive goes."""

    archive: str
    seq: int
    commit: Link
    positions: Positions
    version: int = FORMAT_VERSION


class ManifestStore(Protocol):
    """The place of the head: beside the files, or in the store of a Streaming Controller."""

    def read(self) -> Head | None:
        """Returns the head; None before the first commit. Raises JobError."""

    def commit(self, expected_seq: int, head: Head) -> bool:
        """Makes this the head if the head's number is still `expected_seq`, 0 for none.

        Returns whether it did. Raises JobError. After an error it is unknown whether it did.
        """


class Manifest:
    """The folded manifest: partitions and chunks."""

    def __init__(self, seq: int = 0, snapshot: Snapshot | None = None) -> None:
        """Begins with nothing, or with a snapshot. Raises ManifestError."""
        self.seq = seq
        self._partitions: dict[PartitionKey, ArchivedPartition] = {}
        self._chunks: dict[str, Chunk] = {}
        if snapshot is not None:
            self._add(snapshot.partitions, snapshot.chunks)
            self._check(set(self._partitions))

    @property
    def partitions(self) -> list[ArchivedPartition]:
        """The partitions, by topic, topic id and number."""
        return sorted(self._partitions.values(), key=lambda each: (each.topic, each.topic_id, each.partition))

    @property
    def chunks(self) -> list[Chunk]:
        """All chunks, by topic, topic id, partition and offset."""
        return sorted(self._chunks.values(), key=lambda each: (each.topic, each.topic_id, each.partition, each.start))

    def chunks_of(self, topic_id: str, partition: int) -> list[Chunk]:
        """Returns the chunks of a partition in the order of offsets."""
        return sorted(
            (each for each in self._chunks.values() if each.key == (topic_id, partition)), key=lambda each: each.start
        )

    def files(self) -> Iterator[DataFile]:
        """Yields the files that count."""
        for chunk in self._chunks.values():
            yield from chunk.files

    def positions(self) -> dict[str, dict[int, int]]:
        """Returns the next offset of each partition."""
        found: dict[str, dict[int, int]] = {}
        for each in self.partitions:
            found.setdefault(each.topic_id, {})[each.partition] = each.start
        for chunk in self._chunks.values():
            of_topic = found[chunk.topic_id]
            of_topic[chunk.partition] = max(of_topic[chunk.partition], chunk.end)
        return found

    def snapshot(self) -> Snapshot:
        """Returns everything for a commit with a snapshot."""
        return Snapshot(tuple(self.partitions), tuple(self.chunks))

    def apply(self, commit: Commit) -> None:
        """Applies the next commit. Raises ManifestError if it does not fit."""
        if commit.seq != self.seq + 1:
            raise ManifestError(f"commit {commit.seq} follows commit {self.seq}: the manifest is damaged")
        concerned = {each.key for each in commit.partitions_added} | {each.key for each in commit.chunks_added}
        for removed in commit.chunks_removed:
            chunk = self._chunks.pop(removed, None)
            if chunk is None:
                raise ManifestError(
                    f"commit {commit.seq} removes the chunk {removed}, which is not there: the manifest is damaged"
                )
            concerned.add(chunk.key)
        self._add(commit.partitions_added, commit.chunks_added)
        self._check(concerned)
        self.seq = commit.seq

    def _add(self, partitions: Iterable[ArchivedPartition], chunks: Iterable[Chunk]) -> None:
        for partition in partitions:
            if partition.key in self._partitions:
                raise ManifestError(f"{_name(partition)} begins twice in the archive: the manifest is damaged")
            self._partitions[partition.key] = partition
        for chunk in chunks:
            chunk.check()
            if chunk.key not in self._partitions or chunk.id in self._chunks:
                raise ManifestError(f"the chunk {chunk.id} of {chunk.topic} has no place: the manifest is damaged")
            self._chunks[chunk.id] = chunk

    def _check(self, concerned: set[PartitionKey]) -> None:
        """Checks that the chunks of a partition follow one another without a gap or an overlap."""
        of_partitions: dict[PartitionKey, list[Chunk]] = {key: [] for key in concerned}
        for chunk in self._chunks.values():
            if chunk.key in of_partitions:
                of_partitions[chunk.key].append(chunk)
        for key, chunks in of_partitions.items():
            position = self._partitions[key].start
            for chunk in sorted(chunks, key=lambda each: each.start):
                if chunk.start != position:
                    what = "twice" if chunk.start < position else "nowhere"
                    low, high = sorted((chunk.start, position))
                    raise ManifestError(
                        f"{_name(self._partitions[key])} has the offsets {low} to {high - 1} {what} in the archive: "
                        "the manifest is damaged"
                    )
                position = chunk.end


def fold(commits: Sequence[Commit], head: Head | None) -> Manifest:
    """Folds the commits up to the head, the oldest first. It begins with the last snapshot, or with the first commit.

    Raises ManifestError if a commit is missing, or if the commits and the head contradict each other.
    """
    if head is None:
        return Manifest()
    begin = max((place for place, each in enumerate(commits) if each.snapshot is not None), default=None)
    if begin is None:
        manifest, rest = Manifest(), commits
    else:
        manifest, rest = Manifest(commits[begin].seq, commits[begin].snapshot), commits[begin + 1 :]
    for commit in rest:
        manifest.apply(commit)
    if manifest.seq != head.seq or manifest.positions() != head.positions:
        raise ManifestError(
            f"the head of the manifest is commit {head.seq}, and the commits say something else: it is damaged"
        )
    return manifest


def files_since(commits: Iterable[Commit], since_ms: int) -> set[str]:
    """Returns the paths of the files that count after the last of these commits, or have counted since a time.

    The first commit is that of the archive, or has a snapshot and is older than that time.
    """
    chunks: dict[str, Chunk] = {}
    removed: list[Chunk] = []
    is_recent = False
    for commit in commits:
        is_recent = is_recent or commit.time_ms >= since_ms
        gone = [chunks.pop(each) for each in commit.chunks_removed if each in chunks]
        removed += gone if is_recent else []
        added = commit.chunks_added if commit.snapshot is None else commit.snapshot.chunks
        chunks |= {each.id: each for each in added}
    return {file.path for chunk in (*removed, *chunks.values()) for file in chunk.files}


def next_commit(
    archive: Archive,
    head: Head | None,
    manifest: Manifest,
    time_ms: int,
    *,
    partitions_added: Sequence[ArchivedPartition] = (),
    chunks_added: Sequence[Chunk] = (),
    chunks_removed: Sequence[str] = (),
) -> Commit:
    """Returns the commit that follows the head, and applies it to the manifest. Raises ManifestError."""
    commit = Commit(
        archive=archive.id,
        seq=manifest.seq + 1,
        time_ms=time_ms,
        previous=head.commit if head is not None else None,
        partitions_added=tuple(partitions_added),
        chunks_added=tuple(chunks_added),
        chunks_removed=tuple(chunks_removed),
    )
    manifest.apply(commit)
    if commit.seq % SNAPSHOT_COMMITS == 0:
        commit = msgspec.structs.replace(commit, snapshot=manifest.snapshot())
    return commit


def head_of(commit: Commit, name: str, content: bytes, manifest: Manifest) -> Head:
    """Returns the head that names a commit, after the commit was applied to the manifest."""
    return Head(commit.archive, commit.seq, Link(name, checksum(content)), manifest.positions())


def encode(document: Struct) -> bytes:
    """Encodes a document as JSON, always in the same way."""
    return msgspec.json.encode(document) + b"\n"


def decode(content: bytes, kind: type[_Document], path: str) -> _Document:
    """Decodes a document. Raises ManifestError if it is damaged, or of a newer version."""
    try:
        version = msgspec.json.decode(content, type=_Versioned).version
        if version == FORMAT_VERSION:
            return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise ManifestError(f"{path} is damaged: {error}") from None
    raise ManifestError(
        f"{path} has format version {version}, and this Tailrace knows {FORMAT_VERSION}: use the version of Tailrace "
        "that wrote it"
    )


def check_link(content: bytes, link: Link) -> None:
    """Raises ManifestError if a commit is not the one that the head, or the next commit, names."""
    if checksum(content) != link.sha256:
        raise ManifestError(f"the commit {link.name} has another checksum than its successor says: it is damaged")


def checksum(content: bytes) -> str:
    """Returns the checksum of a document."""
    return hashlib.sha256(content).hexdigest()


class _Versioned(Struct, frozen=True):
    version: int


def _name(partition: ArchivedPartition) -> str:
    return f"{partition.topic}/{partition.partition}"
