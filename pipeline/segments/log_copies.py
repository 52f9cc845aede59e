"""Finds the copies of partitions below some directories, and reads from their manifests what they hold.

Only the driver does this. An SPU may use the directories at the same time: the manifest is read first, so that
everything that it names is on the disk, or was replaced by a later manifest.
"""

from contextlib import suppress
from uuid import UUID

from msgspec import Struct

from tailrace.protocol.batches.record_batch import HEADER_SIZE, read_header
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.files import File, Files
from tailrace.storage.directory.checkpoints import ReplicaKey, SavedHighWatermark, decode_high_watermarks
from tailrace.storage.directory.layout import (
    MANIFEST,
    Kind,
    directories_up_to_data,
    file_name,
    high_watermarks_path,
    parked_path,
    parse_file_name,
    parse_shelf_name,
    replica_of,
)
from tailrace.storage.indexes import offset_index
from tailrace.storage.indexes.offset_index import ENTRY_BYTES
from tailrace.storage.manifest import manifest
from tailrace.storage.manifest.manifest import Manifest, SegmentFacts
from tailrace.storage.segments.batch_walk import FAR_BYTES, walk
from tailrace.storage.verification.verification import replicas_below

from .copy_choice import Extent
from .segment_options import OptionError, SegmentOptions


class CopySegment(Struct, frozen=True):
    """A segment of a copy."""

    base: int
    end: int
    """The offset after its last record."""
    facts: SegmentFacts | None
    """What the manifest says; None if it says nothing, as about the open segment."""

    @property
    def size(self) -> int | None:
        """The size of a sealed segment; None for one to which the SPU may append."""
        return None if self.facts is None else self.facts.size


class LogCopy(Struct, frozen=True):
    """One copy of a partition, or of a part of it: a replica or a shelf."""

    topic: str
    topic_id: UUID
    partition: int
    directory: str
    log_start: int
    segments: tuple[CopySegment, ...]
    sealed_end: int
    """The offset after the last record of the last sealed segment."""
    high_watermark: int
    """The offset before which this copy has only committed records, as the last checkpoint says. A shelf has no
    others."""
    is_shelf: bool = False

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.segments[-1].end if self.segments else self.log_start

    def extent(self, options: SegmentOptions) -> Extent:
        """Returns the offsets that a query may read if their transactions are decided."""
        end = self.end
        if not options.include_unsealed:
            end = min(end, self.sealed_end)
        if options.committed_only:
            end = min(end, self.high_watermark)
        return Extent(self.log_start, max(end, self.log_start))


class CopyFinder:
    """Finds the copies that a query may read."""

    def __init__(self, files: Files, options: SegmentOptions) -> None:
        self._files = files
        self._options = options
        self._high_watermarks: dict[str, dict[ReplicaKey, SavedHighWatermark]] = {}

    def copies(self) -> dict[ReplicaKey, list[LogCopy]]:
        """Returns the copies of each partition, in the order of topics and partitions. Raises OptionError."""
        replicas: dict[str, tuple[str, UUID, int]] = {}
        shelves: dict[str, tuple[UUID, int]] = {}
        for path in self._options.paths:
            if not self._files.exists(path):
                raise OptionError(
                    f"{path} does not exist on the driver: name the data directory of an SPU, or mount it"
                )
            for directory in replicas_below(self._files, path):
                replica, shelf = replica_of(directory), _shelf_of(directory)
                if replica is not None and not self._is_parked(directory):
                    replicas[directory] = (directory.split("/")[-3], *replica)
                elif shelf is not None:
                    shelves[directory] = shelf
        names = {topic_id: topic for topic, topic_id, _ in replicas.values()}
        wanted = {
            **replicas,
            **{directory: (names.get(key[0], str(key[0])), *key) for directory, key in shelves.items()},
        }
        chosen = {directory: named for directory, named in wanted.items() if self._is_wanted(*named)}
        self._check_topics({(topic, topic_id) for topic, topic_id, _ in chosen.values()})
        found: dict[ReplicaKey, list[LogCopy]] = {}
        for directory, (topic, topic_id, partition) in sorted(chosen.items(), key=lambda each: (*each[1], each[0])):
            copy = self._copy(directory, topic, topic_id, partition, is_shelf=directory in shelves)
            found.setdefault((topic_id, partition), []).append(copy)
        return found

    def _is_parked(self, directory: str) -> bool:
        data, _, topic, topic_id, partition = directory.rsplit("/", 4)
        paths = (parked_path(data, topic, UUID(topic_id)), parked_path(data, topic, UUID(topic_id), int(partition)))
        return any(self._files.exists(path) for path in paths)

    def _is_wanted(self, topic: str, topic_id: UUID, partition: int) -> bool:
        options = self._options
        return (
            (not options.topics or topic in options.topics)
            and options.topic_id in (None, topic_id)
            and (not options.partitions or partition in options.partitions)
        )

    def _check_topics(self, found: set[tuple[str, UUID]]) -> None:
        options = self._options
        ids: dict[str, list[str]] = {}
        for topic, topic_id in sorted(found, key=str):
            ids.setdefault(topic, []).append(str(topic_id))
        for topic, topic_ids in ids.items():
            if len(topic_ids) > 1:
                raise OptionError(
                    f"{topic} was deleted and created again, and its records are here under {' and '.join(topic_ids)}: "
                    "choose one with topicId"
                )
        missing = [topic for topic in options.topics if topic not in ids]
        if missing or not found:
            what = f"topic {missing[0]}" if missing else "partition that the query asks for"
            raise OptionError(f"there is no {what} below {', '.join(options.paths)}")

    def _copy(self, directory: str, topic: str, topic_id: UUID, partition: int, *, is_shelf: bool) -> LogCopy:
        content = self._manifest(directory)
        segments = self._segments(directory, content)
        end = segments[-1].end if segments else content.log_start
        named = [segment.end for segment in segments if segment.facts is not None]
        return LogCopy(
            topic,
            topic_id,
            partition,
            directory,
            content.log_start if content.has_start or not segments else segments[0].base,
            tuple(segments),
            max(named, default=content.log_start),
            end
            if is_shelf or not self._options.committed_only
            else self._high_watermark(directory, topic_id, partition),
            is_shelf,
        )

    def _manifest(self, directory: str) -> Manifest:
        path = f"{directory}/{MANIFEST}"
        try:
            content = manifest.decode(self._files.read(path))
        except FileNotFoundError:
            return Manifest()
        if content.version != manifest.VERSION:
            raise OptionError(
                f"{path} has format version {content.version}, and this Tailrace knows {manifest.VERSION}: use the "
                "version of Tailrace that wrote it"
            )
        return content

    def _segments(self, directory: str, content: Manifest) -> list[CopySegment]:
        """Returns the segments in order: those that the manifest names, and those about which it says nothing."""
        named = [CopySegment(facts.base, facts.end, facts) for facts in content.sealed.values()]
        bases = [
            file.offset
            for name in self._files.list(directory)
            if (file := parse_file_name(name)) is not None and file.kind is Kind.LOG
        ]
        others = [base for base in bases if not any(each.base <= base < each.end for each in named)]
        starts = sorted([*(each.base for each in named), *others])
        for base in others:
            following = next((start for start in starts if start > base), None)
            end = following if following is not None else self._end_of(directory, base)
            named.append(CopySegment(base, end, None))
        return sorted((each for each in named if each.end > content.log_start), key=lambda each: each.base)

    def _end_of(self, directory: str, base: int) -> int:
        """Returns the end of the open segment, by the headers of its last batches."""
        end = base
        with suppress(FileNotFoundError, KafkaError):  # it was deleted just now, or its end is damaged
            file = self._files.open(f"{directory}/{file_name(base, Kind.LOG)}")
            for _, header, _ in walk(file, self._last_indexed(file, directory, base), file.size(), FAR_BYTES):
                end = header.next_offset
        return end

    def _last_indexed(self, file: File, directory: str, base: int) -> int:
        """Returns the position of the last batch that the index names; 0 if that is uncertain."""
        with suppress(FileNotFoundError, KafkaError):
            index = self._files.open(f"{directory}/{file_name(base, Kind.INDEX)}")
            last = index.read_at((index.size() // ENTRY_BYTES - 1) * ENTRY_BYTES, ENTRY_BYTES) if index.size() else b""
            if len(last) == ENTRY_BYTES:
                entry = int.from_bytes(last, "little")
                position = offset_index.position_of(entry)
                header = read_header(file.read_at(position, HEADER_SIZE))
                if header.base_offset == base + offset_index.relative_offset_of(entry):
                    return position
        return 0

    def _high_watermark(self, directory: str, topic_id: UUID, partition: int) -> int:
        path = high_watermarks_path(directories_up_to_data(directory)[-1])
        if path not in self._high_watermarks:
            try:
                saved = decode_high_watermarks(self._files.read(path))
            except FileNotFoundError:
                saved = None
            if saved is None:
                raise OptionError(
                    f"{path} is missing or damaged, so it is unknown which records are committed: an SPU writes it "
                    "every few seconds; or set committedOnly to false to read all records"
                )
            self._high_watermarks[path] = saved
        known = self._high_watermarks[path].get((topic_id, partition))
        return known.value if known is not None else 0


def _shelf_of(directory: str) -> tuple[UUID, int] | None:
    parent, _, name = directory.rpartition("/")
    key = parse_shelf_name(name) if parent.endswith("/shelves") else None
    return (key.topic_id, key.partition) if key is not None else None
