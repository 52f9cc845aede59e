"""Decides what the leader of a partition does next about its shelves.

This is the leader's side. Sealed, committed and synced segments move to the last shelf, one after the other. Local
retention then deletes them from the log. Total retention counts the shelves and the log as one log, and deletes the
oldest records first. A segment that cannot move to a shelf stays in the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tailrace.broker.replicas.topic_settings import TopicSettings
from tailrace.cluster.shelf_lookup import earliest_offset, shelved_end
from tailrace.cluster.specs import PartitionSpec, Shelf
from tailrace.protocol.ids import SpuId
from tailrace.storage.log.retention import segments_to_remove
from tailrace.storage.log_config import UNLIMITED
from tailrace.storage.manifest.manifest import SegmentFacts

SEGMENTS_PER_SHELF_MAX = 16
"""A shelf with so many segments is complete, and the next one may have other stores. So a partition is spread over all
SPUs, and the loss of one SPU requires a bounded amount of copying."""
NOWHERE = -1
"""Stands for no offset."""


class Filled(NamedTuple):
    """An SPU confirms that it has a shelf up to `end`."""

    base: int
    spu: SpuId
    end: int


class Report(Struct, frozen=True):
    """The leader has to report this to the Streaming Controller."""

    shelved_from: int = 0
    """The offset before which records are deleted for good."""
    filled: tuple[Filled, ...] = ()
    next_base: int = NOWHERE
    """The offset at which a new shelf should begin, if one is wanted."""


class Fill(Struct, frozen=True):
    """The leader has to ask these SPUs to fill a shelf up to `end`, and to confirm what they have."""

    base: int
    end: int
    spus: tuple[SpuId, ...]


class AdvanceLogStart(Struct, frozen=True):
    """The leader has to delete the records of its log before `log_start`."""

    log_start: int
    is_local: bool
    """Whether the deleted records stay on shelves."""


Step = Report | Fill | AdvanceLogStart


class ShelvedPartition(Struct, frozen=True):
    """Everything that the leader knows about its partition when it decides."""

    spec: PartitionSpec
    settings: TopicSettings
    wants_more_shelves: bool
    """Whether more segments should move to shelves."""
    log_start: int
    segments: Sequence[SegmentFacts]
    """The segments of the log; the last one is open."""
    high_watermark: int
    synced_end: int
    compacted_end: int
    """The offset before which compaction may have removed records."""
    now_ms: int
    online: frozenset[SpuId]
    failed: frozenset[SpuId] = frozenset()
    """The SPUs that failed to fill a shelf in this turn."""
    copied_ends: Mapping[tuple[int, SpuId], int] = {}
    """The offset up to which an SPU has confirmed a shelf in this round, by the shelf's base and the SPU."""
    contents: Mapping[int, Sequence[SegmentFacts]] = {}
    """The segments of each shelf, by its base, as one of its stores has described them."""
    delete_before: int = 0
    """The offset before which a client has asked to delete records."""
    stable_end: int = 2**63 - 1
    """The offset before which every transaction is decided. What lies behind it stays in the log, so that a shelf has
    no transaction that may end either way."""
    may_report: bool = True
    """False if the Streaming Controller did not carry out a report in this turn. Retention goes on without it."""


def next_step(partition: ShelvedPartition) -> Step | None:
    """Returns the next step, or None if there is nothing to do, or nothing that can be done now."""
    for decide in (_delete_for_good, _ask_stores, _add_stores, _total_retention, _local_retention, _grow, _repair):
        step = decide(partition)
        if step is not None and (partition.may_report or not isinstance(step, Report)):
            return step
    return None


def _delete_for_good(partition: ShelvedPartition) -> Step | None:
    """Reports records that are deleted for good, and are still on shelves."""
    spec = partition.spec
    if not spec.shelves:
        return None
    is_all_gone = partition.log_start > shelved_end(spec)
    start = partition.log_start if is_all_gone else min(partition.delete_before, partition.log_start)
    return Report(shelved_from=start) if start > spec.shelved_from else None


def _ask_stores(partition: ShelvedPartition) -> Step | None:
    """Asks the stores that have not confirmed anything in this round."""
    for shelf in _with_content(partition):
        spus = tuple(
            spu
            for spu in (*shelf.stores, *shelf.filling)
            if (shelf.base, spu) not in partition.copied_ends and _can_be_asked(partition, spu)
        )
        if spus:
            return Fill(shelf.base, shelf.end, spus)
    return None


def _add_stores(partition: ShelvedPartition) -> Step | None:
    """Reports the SPUs that have filled a shelf, and so become stores of it."""
    filled = tuple(
        Filled(shelf.base, spu, shelf.end)
        for shelf in partition.spec.shelves
        for spu in shelf.filling
        if spu in partition.online and _copied_end(partition, shelf, spu) >= shelf.end
    )
    return Report(filled=filled) if filled else None


def _total_retention(partition: ShelvedPartition) -> Step | None:
    """Deletes old segments for good: from the log, if it has any of them, else from the shelves."""
    spec, settings = partition.spec, partition.settings.log
    shelved = _shelved_segments(partition)
    segments = [*shelved.segments, *partition.segments]
    if settings.retention_bytes != UNLIMITED:  # in doubt, delete too little
        settings = replace(settings, retention_bytes=settings.retention_bytes + shelved.duplicate_bytes_max)
    count = segments_to_remove(
        segments,
        settings,
        now_ms=partition.now_ms,
        log_start=earliest_offset(spec, partition.log_start),
        high_watermark=partition.high_watermark,
    )
    if shelved.known_count is not None:
        count = min(count, shelved.known_count)
    end = segments[count - 1].end if count else 0
    if end > partition.log_start:
        return AdvanceLogStart(end, is_local=False)
    return Report(shelved_from=end) if spec.shelves and end > spec.shelved_from else None


class _ShelvedSegments(NamedTuple):
    """The segments that are on shelves only."""

    segments: Sequence[SegmentFacts]
    """The segments before the log that are known, in order."""
    known_count: int | None
    """How many of them lie before the first unknown one; None if all are known."""
    duplicate_bytes_max: int
    """An upper bound of the bytes that are counted twice, because they are also in the log or on the next shelf."""


def _shelved_segments(partition: ShelvedPartition) -> _ShelvedSegments:
    spec, log_base = partition.spec, partition.segments[0].base
    found: list[SegmentFacts] = []
    known_count: int | None = None
    duplicate_bytes_max = 0
    for shelf in spec.shelves:
        end = min(shelf.end, partition.log_start)  # the records after it are also in the log
        if end <= max(shelf.base, spec.shelved_from):
            continue
        segments = [each for each in partition.contents.get(shelf.base, ()) if each.base < end]
        is_known = bool(segments) and segments[-1].end >= end
        if not is_known and known_count is None:
            known_count = len(found)
        # A store may have filled its copy beyond the end of the shelf that the specs show.
        duplicate_bytes_max += sum(each.size for each in segments if each.end > min(shelf.end, log_base))
        found += [replace(each, end=min(each.end, end)) for each in segments]
    return _ShelvedSegments(found, known_count, duplicate_bytes_max)


def _local_retention(partition: ShelvedPartition) -> Step | None:
    """Deletes old segments from the log that stay on shelves."""
    settings, segments = partition.settings, partition.segments
    if not partition.spec.shelves:
        return None
    config = replace(
        settings.log,
        deletes=True,
        retention_ms=settings.local_retention_ms,
        retention_bytes=settings.local_retention_bytes,
    )
    count = segments_to_remove(
        segments,
        config,
        now_ms=partition.now_ms,
        log_start=partition.log_start,
        high_watermark=min(_confirmed_end(partition), partition.high_watermark, partition.segments[-1].base),
    )
    end = segments[count - 1].end if count else 0
    return AdvanceLogStart(end, is_local=True) if end > partition.log_start else None


def _confirmed_end(partition: ShelvedPartition) -> int:
    """Returns the offset up to which all stores have confirmed, in this round, the segments that the log also has.

    A shelf also needs at least as many stores as the partition has replicas.
    """
    end = 0
    replicas = len(partition.spec.copy_sets[-1] if partition.spec.copy_sets else partition.spec.replicas)
    for shelf in partition.spec.shelves:
        confirmed = sum(_copied_end(partition, shelf, spu) >= shelf.end for spu in shelf.stores)
        if shelf.end > partition.log_start and confirmed < max(replicas, len(shelf.stores)):
            break
        end = shelf.end
    return end


def _grow(partition: ShelvedPartition) -> Step | None:
    """Moves the next segment to the last shelf, or begins another shelf."""
    spec, online = partition.spec, partition.online
    last = spec.shelves[-1] if spec.shelves else None
    start = partition.log_start if last is None else last.end
    end = _next_end(partition, start)
    if end is None:
        return None
    if last is None or _is_large(partition, last) or not online.issuperset(last.stores):
        # Only the Streaming Controller can change the stores of an empty shelf.
        is_empty = last is not None and last.base == last.end
        return Report(next_base=start) if not is_empty and online.difference(spec.replicas) else None
    lacking = tuple(spu for spu in last.stores if _copied_end(partition, last, spu) < end)
    if not lacking:
        filled = tuple(Filled(last.base, spu, end) for spu in last.stores)
        return Report(filled=filled) if filled else None
    return None if partition.failed.intersection(lacking) else Fill(last.base, end, lacking)


def _next_end(partition: ShelvedPartition, start: int) -> int | None:
    """Returns the end of the next segment that may move to a shelf."""
    if not partition.wants_more_shelves or start < max(partition.log_start, partition.compacted_end):
        return None
    end_max = min(partition.high_watermark, partition.synced_end, partition.stable_end)
    return next((each.end for each in partition.segments[:-1] if start < each.end <= end_max), None)


def _is_large(partition: ShelvedPartition, shelf: Shelf) -> bool:
    contents = partition.contents.get(shelf.base, ())
    return sum(each.base < shelf.end for each in contents) >= SEGMENTS_PER_SHELF_MAX


def _repair(partition: ShelvedPartition) -> Step | None:
    """Asks SPUs to fill shelves that are incomplete, because they lost data or have not been filled yet."""
    for shelf in _with_content(partition):
        for spu in (*shelf.stores, *shelf.filling):
            if _copied_end(partition, shelf, spu) < shelf.end and _can_be_asked(partition, spu):
                return Fill(shelf.base, shelf.end, (spu,))
    return None


def _with_content(partition: ShelvedPartition) -> Iterator[Shelf]:
    return (shelf for shelf in partition.spec.shelves if shelf.base < shelf.end)


def _can_be_asked(partition: ShelvedPartition, spu: SpuId) -> bool:
    return spu in partition.online and spu not in partition.failed


def _copied_end(partition: ShelvedPartition, shelf: Shelf, spu: SpuId) -> int:
    """Returns the offset up to which the SPU has confirmed the shelf. Every SPU has all of an empty shelf."""
    return partition.copied_ends.get((shelf.base, spu), shelf.base if shelf.base == shelf.end else NOWHERE)
