"""The statistics of streams as values, and the result that has them."""

from collections.abc import Iterable

from msgspec import Struct

from tailrace.pipeline.jobs.job_results import JobResult

from .size_buckets import SizeStat

TOP = 20
"""How many keys, producers, partitions with a rate, and duplicates of a topic the result has."""
PREVIEW_BYTES = 48
"""How many bytes of a key are shown."""


class Compaction(Struct, frozen=True):
    """What compaction would keep: the latest record of each key."""

    keys: int = 0
    """How many records would stay."""
    keyed: int = 0
    """How many records have a key. Others cannot be compacted."""
    keyed_bytes: int = 0
    """The bytes of keys and values of records with a key."""
    kept_bytes: int = 0
    tombstones: int = 0
    """How many of the latest records have no value. They are deleted later."""

    @property
    def saved(self) -> int:
        return self.keyed - self.keys

    @property
    def saved_bytes(self) -> int:
        return self.keyed_bytes - self.kept_bytes

    def __add__(self, other: "Compaction") -> "Compaction":
        return Compaction(
            self.keys + other.keys,
            self.keyed + other.keyed,
            self.keyed_bytes + other.keyed_bytes,
            self.kept_bytes + other.kept_bytes,
            self.tombstones + other.tombstones,
        )


class RateSlot(Struct, frozen=True):
    """The records of one span of time."""

    start_ms: int
    records: int
    bytes: int
    """Stored bytes of a log, or bytes of keys and values of an archive."""


class PartitionStat(Struct, frozen=True):
    """One partition."""

    topic: str
    partition: int
    first: int
    """The first offset."""
    last: int
    records: int
    batches: int | None
    """How many batches there are; None for an archive, which has none."""
    stored_bytes: int | None
    """The bytes of batches in segments; None for an archive."""
    content_bytes: int
    """The bytes of keys and values, without compression."""
    first_ms: int | None
    last_ms: int | None
    other_entries: int
    """Batches that hold no events: holes, bridges and markers."""
    duplicates: int
    compaction: Compaction
    peak_per_second: float | None = None
    """The highest rate of records: that of the busiest slot of `rate`, or the mean rate if that is higher; None where
    the rate over time was not computed."""
    rate: list[RateSlot] = []

    @property
    def weight(self) -> int:
        """The bytes that count when partitions are compared."""
        return self.content_bytes if self.stored_bytes is None else self.stored_bytes

    @property
    def per_second(self) -> float | None:
        """The mean rate of records from the first to the last."""
        return mean_rate(self.records, self.first_ms, self.last_ms)


def mean_rate(records: int, first_ms: int | None, last_ms: int | None) -> float | None:
    """Returns how many records a second has on average, or None if all have the same time. A shorter time counts as a
    second, because a burst of a millisecond says nothing about a second."""
    if first_ms is None or last_ms is None or last_ms <= first_ms:
        return None
    return records / max(1.0, (last_ms - first_ms) / 1000)


class KeyStat(Struct, frozen=True):
    """One of the most frequent keys of a topic."""

    key: str | None
    """The beginning of the key as text, or as `0x…` if it is no text; None for records without a key."""
    key_bytes: int
    partition: int
    records: int
    bytes: int

    @property
    def name(self) -> str:
        """The key for a person, also if there is none."""
        return "(no key)" if self.key is None else self.key or "(empty)"


class ProducerStat(Struct, frozen=True):
    """One of the producers that wrote the most records to a topic; -1 stands for those without an id."""

    producer_id: int
    epochs: int
    records: int
    bytes: int | None
    batches: int | None


class CodecStat(Struct, frozen=True):
    """The batches with one compression."""

    codec: str
    batches: int
    records: int
    bytes: int


class DuplicateStat(Struct, frozen=True):
    """A sequence that a producer wrote more than once."""

    partition: int
    producer_id: int
    producer_epoch: int
    sequence: int
    times: int
    first: int
    last: int
    """The first and the last offset at which it is."""


class TopicStat(Struct, frozen=True):
    """One topic."""

    topic: str
    partitions: list[PartitionStat]
    keys: list[KeyStat]
    """The most frequent keys, and those without a key if they are among them."""
    key_sizes: SizeStat
    value_sizes: SizeStat
    batch_records: SizeStat | None
    """How many records batches have; None for an archive."""
    batch_bytes: SizeStat | None
    codecs: list[CodecStat]
    producers: list[ProducerStat]
    producers_about: int
    """About how many producers with an id there are."""
    without_producer: int
    """How many records have no producer id. Duplicates among them cannot be recognised."""
    duplicates: list[DuplicateStat]
    """The first duplicates."""
    slot_seconds: int

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    @property
    def content_bytes(self) -> int:
        return sum(each.content_bytes for each in self.partitions)

    @property
    def stored_bytes(self) -> int | None:
        known = [each.stored_bytes for each in self.partitions if each.stored_bytes is not None]
        return sum(known) if known else None

    @property
    def weight(self) -> int:
        return sum(each.weight for each in self.partitions)

    @property
    def duplicate_count(self) -> int:
        return sum(each.duplicates for each in self.partitions)

    @property
    def compaction(self) -> Compaction:
        return sum((each.compaction for each in self.partitions), Compaction())

    @property
    def skew(self) -> float:
        """How many times the mean of all partitions that were read the largest one has, in bytes."""
        largest = max((each.weight for each in self.partitions), default=0)
        return largest * len(self.partitions) / self.weight if self.weight else 1.0

    @property
    def hottest(self) -> KeyStat | None:
        """The most frequent key."""
        return next((each for each in self.keys if each.key is not None), None)

    @property
    def compression_ratio(self) -> float | None:
        """Bytes of keys and values for each stored byte; below 1 if headers of batches take more than compression
        saves."""
        stored = self.stored_bytes
        return self.content_bytes / stored if stored else None


class StatsResult(JobResult, frozen=True, kw_only=True):
    """The statistics of all topics that were read."""

    source: str
    topics: list[TopicStat]
    """The topics, the largest first."""


def hottest_of(topics: Iterable[TopicStat]) -> TopicStat | None:
    """Returns the topic with the most frequent key; None if no record has a key."""
    found = [(each.hottest.records, each) for each in topics if each.hottest is not None]
    return max(found, key=lambda each: each[0])[1] if found else None


def key_text(preview: bytes | None, size: int) -> str | None:
    """Returns the beginning of a key as text if it is printable, and otherwise in hexadecimal digits."""
    if preview is None:
        return None
    is_whole = size <= len(preview)
    for cut in range(1 if is_whole else 4):  # the last character of a shortened key may be incomplete
        try:
            text = preview[: len(preview) - cut].decode()
        except UnicodeDecodeError:
            continue
        if text.isprintable() and (text or is_whole):
            return text if is_whole else text + "…"
        break
    return f"0x{preview.hex()}{'' if is_whole else '…'}"
