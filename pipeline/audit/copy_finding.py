"""Finds the copies of partitions below some directories, and those that are lost. Only the driver does this."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from msgspec import Struct

from tailrace.pipeline.jobs.job_errors import JobError, WrongUsageError
from tailrace.runtime.files import Files
from tailrace.storage.directory.checkpoints import (
    ReplicaKey,
    SavedHighWatermark,
    decode_high_watermarks,
    load_removed_replicas,
)
from tailrace.storage.directory.layout import (
    directories_up_to_data,
    high_watermarks_path,
    parked_path,
    parse_shelf_name,
    replica_of,
    spu_path,
)
from tailrace.storage.verification.verification import data_directories_below, replicas_below

_SPU_PREFIX = "tailrace spu "
_USUAL_PARTITIONS_MIN = 3
"""A topic with fewer partitions does not show how many replicas are usual."""


class FoundCopy(Struct, frozen=True):
    """A replica or a shelf."""

    topic: str
    topic_id: UUID
    partition: int
    directory: str
    data_directory: str
    is_shelf: bool
    high_watermark: int | None
    """The offset before which all of it is committed, as the SPU last saved it; None if nothing was saved, as for
    shelves."""


class LostCopy(Struct, frozen=True):
    """A replica that should be there."""

    topic: str
    topic_id: UUID
    partition: int
    directory: str | None
    """The data directory that should have it; None if that is unknown."""
    reason: str


class Expected(Struct, frozen=True):
    """What the caller knows about the replicas."""

    count: int | None = None
    """How many replicas each partition has."""
    spus: Mapping[ReplicaKey, Sequence[int]] | None = None
    """The SPUs of the replicas of each partition."""
    topics: Mapping[UUID, str] = {}
    """The names of the topics in `spus`."""


class Found(Struct, frozen=True):
    """All that is below the directories."""

    copies: Mapping[ReplicaKey, Sequence[FoundCopy]]
    lost: Sequence[LostCopy]
    spus: Mapping[str, int]
    """The id of the SPU that uses each data directory."""


class CopyFinder:
    """Looks for copies below directories."""

    def __init__(self, files: Files, paths: Sequence[str], topics: Sequence[str] = ()) -> None:
        self._files = files
        self._paths = [path.rstrip("/") or "/" for path in paths]
        self._topics = topics
        self._high_watermarks: dict[str, Mapping[ReplicaKey, SavedHighWatermark]] = {}
        self._in_use: dict[str, set[ReplicaKey]] = {}
        """The replicas whose files each data directory has, parked or not."""

    def find(self, expected: Expected, *, may_be_empty: bool = False) -> Found:
        """Looks into the directories. Raises JobError, also if there is nothing unless `may_be_empty`."""
        self._high_watermarks = {}
        self._in_use = {data: set() for path in self._paths for data in self._data_directories(path)}
        copies: dict[ReplicaKey, list[FoundCopy]] = {}
        shelves: list[tuple[str, UUID, int]] = []
        for directory in dict.fromkeys(each for path in self._paths for each in replicas_below(self._files, path)):
            replica, data = replica_of(directory), directories_up_to_data(directory)[-1]
            if replica is not None:
                self._in_use.setdefault(data, set()).add(replica)
                topic = directory.split("/")[-3]
                if self._is_wanted(topic) and not self._is_parked(directory):
                    known = self._saved(data).get(replica)
                    copy = FoundCopy(
                        topic, *replica, directory, data, False, known.value if known is not None else None
                    )
                    copies.setdefault(replica, []).append(copy)
            elif (shelf := _shelf_of(directory)) is not None:
                shelves.append((directory, *shelf))
        for directory, topic_id, partition in shelves:
            if (topic_id, partition) in copies:
                topic = copies[topic_id, partition][0].topic
                data = directories_up_to_data(directory)[-1]
                copies[topic_id, partition].append(FoundCopy(topic, topic_id, partition, directory, data, True, None))
        if not may_be_empty:
            self._check_topics(copies)
        spus = {data: spu for data in self._in_use if (spu := self._spu_of(data)) is not None}
        ordered = dict(sorted(copies.items(), key=lambda each: (each[1][0].topic, str(each[0][0]), each[0][1])))
        return Found(ordered, list(self._lost(ordered, expected, spus)), spus)

    def _data_directories(self, path: str) -> Iterator[str]:
        if not self._files.exists(path):
            raise WrongUsageError(
                f"{path} does not exist on the driver: name the data directory of an SPU, or mount it"
            )
        return data_directories_below(self._files, path)

    def _is_wanted(self, topic: str) -> bool:
        return not self._topics or topic in self._topics

    def _check_topics(self, copies: Mapping[ReplicaKey, Sequence[FoundCopy]]) -> None:
        known = {each.topic for found in copies.values() for each in found}
        missing = [topic for topic in self._topics if topic not in known]
        if missing or not copies:
            what = f"topic {missing[0]}" if missing else "partition"
            raise WrongUsageError(f"there is no {what} below {', '.join(self._paths)}")

    def _is_parked(self, directory: str) -> bool:
        data, _, topic, topic_id, partition = directory.rsplit("/", 4)
        paths = (parked_path(data, topic, UUID(topic_id)), parked_path(data, topic, UUID(topic_id), int(partition)))
        return any(self._files.exists(path) for path in paths)

    def _saved(self, data: str) -> Mapping[ReplicaKey, SavedHighWatermark]:
        if data not in self._high_watermarks:
            path = high_watermarks_path(data)
            try:
                saved = decode_high_watermarks(self._files.read(path))
            except FileNotFoundError:
                saved = None
            if saved is None:
                raise JobError(
                    f"{path} is missing or damaged, so it is unknown which records are committed: an SPU writes it "
                    "every few seconds"
                )
            self._high_watermarks[data] = saved
        return self._high_watermarks[data]

    def _spu_of(self, data: str) -> int | None:
        try:
            text = self._files.read(spu_path(data)).decode(errors="replace").strip()
        except FileNotFoundError:
            return None
        number = text.removeprefix(_SPU_PREFIX)
        return int(number) if text.startswith(_SPU_PREFIX) and number.isdecimal() else None

    # lost copies

    def _lost(
        self, copies: Mapping[ReplicaKey, Sequence[FoundCopy]], expected: Expected, spus: Mapping[str, int]
    ) -> Iterator[LostCopy]:
        usual = _usual_counts(copies) if expected.count is None and expected.spus is None else {}
        numbers = {number: data for data, number in spus.items()}
        for key, wanted_spus in (expected.spus or {}).items():
            topic = expected.topics.get(key[0], str(key[0]))
            for spu in wanted_spus if key not in copies and self._is_wanted(topic) else ():
                if not self._has_nothing(numbers.get(spu, ""), key):
                    yield LostCopy(topic, *key, None, f"SPU {spu} should have a replica, and none was found")
        for key, found in copies.items():
            first = found[0]
            lost: dict[str, str] = {}
            for data, present in self._in_use.items():
                if key not in present and key in self._saved_if_any(data) and not self._was_removed(data, key):
                    lost[data] = "its SPU saved a high watermark for it, and its directory is gone"
            unknown: list[str] = []
            for spu in (expected.spus or {}).get(key, ()):
                data = numbers.get(spu, "")
                if not data:
                    unknown.append(f"SPU {spu} should have a replica, and its data directory was not given")
                elif key not in self._in_use[data]:
                    lost.setdefault(data, f"SPU {spu} should have a replica, and its directory is gone")
            for data, reason in lost.items():
                yield LostCopy(first.topic, *key, data, reason)
            for reason in unknown:
                yield LostCopy(first.topic, *key, None, reason)
            count = sum(not each.is_shelf for each in found)
            wanted = expected.count or usual.get(key[0], 0)
            for _ in range(wanted - count - len(lost) - len(unknown)):
                why = "" if expected.count else ", as most partitions of the topic have"
                yield LostCopy(first.topic, *key, None, f"{count} replicas were found instead of {wanted}{why}")

    def _saved_if_any(self, data: str) -> Mapping[ReplicaKey, SavedHighWatermark]:
        return self._saved(data) if self._files.exists(high_watermarks_path(data)) else {}

    def _has_nothing(self, data: str, key: ReplicaKey) -> bool:
        """Returns whether an SPU knows of no committed record. Such a replica has no files before its first record."""
        saved = self._saved_if_any(data).get(key) if data else None
        return saved is not None and saved.value == 0

    def _was_removed(self, data: str, key: ReplicaKey) -> bool:
        return key in load_removed_replicas(self._files, data)


def _usual_counts(copies: Mapping[ReplicaKey, Sequence[FoundCopy]]) -> dict[UUID, int]:
    """Returns how many replicas more than half of the partitions of each topic have."""
    by_topic: dict[UUID, list[int]] = {}
    for (topic_id, _), found in copies.items():
        by_topic.setdefault(topic_id, []).append(sum(not each.is_shelf for each in found))
    usual = {}
    for topic_id, counts in by_topic.items():
        count, partitions = Counter(counts).most_common(1)[0]
        if len(counts) >= _USUAL_PARTITIONS_MIN and 2 * partitions > len(counts):
            usual[topic_id] = count
    return usual


def _shelf_of(directory: str) -> tuple[UUID, int] | None:
    parent, _, name = directory.rpartition("/")
    key = parse_shelf_name(name) if parent.endswith("/shelves") else None
    return (key.topic_id, key.partition) if key is not None else None
