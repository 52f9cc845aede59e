"""What the leader of a partition does next about its shelves, from all that is known of them at the moment.

Segments that are sealed, committed and on the disk are put on the last shelf, one after the other. What is on a shelf
goes from the log by local retention. Total retention counts what is on shelves and in the log as one partition, and
goes from the oldest on: nothing goes while something before it stays. What cannot be put on a shelf stays in the log.
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
"""Then another one begins, perhaps elsewhere: a partition is spread over all SPUs, and what must be copied again when
one of them is lost has a bound."""
NOWHERE = -1


class Filled(NamedTuple):
    """An SPU has a shelf up to there."""

    base: int
    spu: SpuId
    end: int


class Report(Struct, frozen=True):
    """The Streaming Controller is to know."""

    shelved_from: int = 0
    filled: tuple[Filled, ...] = ()
    next_base: int = NOWHERE


class Fill(Struct, frozen=True):
    """These SPUs are to have a shelf up to there, and say what they have."""

    base: int
    end: int
    spus: tuple[SpuId, ...]


class Advance(Struct, frozen=True):
    """The log is to start there."""

    log_start: int
    is_local: bool
    """What goes stays on shelves."""


Step = Report | Fill | Advance


class ShelvedPartition(Struct, frozen=True):
    """What its leader knows."""

    spec: PartitionSpec
    settings: TopicSettings
    wants_more_shelves: bool
    """Whether more is to be put on shelves."""
    log_start: int
    segments: Sequence[SegmentFacts]
    """Of the log; the open one last."""
    high_watermark: int
    synced_end: int
    compacted_end: int
    """Before it batches may be missing."""
    now_ms: int
    online: frozenset[SpuId]
    failed: frozenset[SpuId] = frozenset()
    """They did not do what they were asked for a moment ago."""
    copies: Mapping[tuple[int, SpuId], int] = {}
    """By base of the shelf: up to where these SPUs have it, as they said lately."""
    contents: Mapping[int, Sequence[SegmentFacts]] = {}
    """The segments of shelves, by the base of the shelf, as somebody said who had them."""
    delete_before: int = 0
    """What somebody wants to be gone."""
    reports: bool = True
    """Whether the Streaming Controller does what is reported: it may be away, and the log is not to grow meanwhile."""


def next_step(partition: ShelvedPartition) -> Step | None:
    """None: all is as it should be, or cannot be made so now."""
    for decide in (_deletion, _question, _entry, _total_retention, _local_retention, _growth, _repair):
        step = decide(partition)
        if step is not None and (partition.reports or not isinstance(step, Report)):
            return step
    return None


def _deletion(partition: ShelvedPartition) -> Step | None:
    """What is deleted for good, and still on shelves."""
    spec = partition.spec
    if not spec.shelves:
        return None
    is_all_gone = partition.log_start > shelved_end(spec)
    start = partition.log_start if is_all_gone else min(partition.delete_before, partition.log_start)
    return Report(shelved_from=start) if start > spec.shelved_from else None


def _question(partition: ShelvedPartition) -> Step | None:
    """Who has not been asked what he has."""
    for shelf in _with_content(partition):
        spus = tuple(
            spu
            for spu in (*shelf.stores, *shelf.filling)
            if (shelf.base, spu) not in partition.copies and _can_be_asked(partition, spu)
        )
        if spus:
            return Fill(shelf.base, shelf.end, spus)
    return None


def _entry(partition: ShelvedPartition) -> Step | None:
    """Who has got all of a shelf, and becomes one of its stores."""
    filled = tuple(
        Filled(shelf.base, spu, shelf.end)
        for shelf in partition.spec.shelves
        for spu in shelf.filling
        if spu in partition.online and _copied_end(partition, shelf, spu) >= shelf.end
    )
    return Report(filled=filled) if filled else None


def _total_retention(partition: ShelvedPartition) -> Step | None:
    spec, settings = partition.spec, partition.settings.log
    shelved = _what_is_shelved(partition)
    segments = [*shelved.segments, *partition.segments]
    if settings.retention_bytes != UNLIMITED:  # rather too little is removed than too much
        settings = replace(settings, retention_bytes=settings.retention_bytes + shelved.twice_bytes_max)
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
        return Advance(end, is_local=False)
    return Report(shelved_from=end) if spec.shelves and end > spec.shelved_from else None


class _Shelved(NamedTuple):
    segments: Sequence[SegmentFacts]
    """Those before the log, as far as they are known."""
    known_count: int | None
    """How many of them lie before the first that is not."""
    twice_bytes_max: int
    """What there is of them in the log as well, or on the next shelf: no more than that is known of it."""


def _what_is_shelved(partition: ShelvedPartition) -> _Shelved:
    spec, log_base = partition.spec, partition.segments[0].base
    found: list[SegmentFacts] = []
    known_count: int | None = None
    twice_bytes_max = 0
    for shelf in spec.shelves:
        end = min(shelf.end, partition.log_start)  # what lies behind is in the log, too
        if end <= max(shelf.base, spec.shelved_from):
            continue
        segments = [each for each in partition.contents.get(shelf.base, ()) if each.base < end]
        is_known = bool(segments) and segments[-1].end >= end
        if not is_known and known_count is None:
            known_count = len(found)
        # A store may have more by now than what its shelf is said to have.
        twice_bytes_max += sum(each.size for each in segments if each.end > min(shelf.end, log_base))
        found += [replace(each, end=min(each.end, end)) for each in segments]
    return _Shelved(found, known_count, twice_bytes_max)


def _local_retention(partition: ShelvedPartition) -> Step | None:
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
    return Advance(end, is_local=True) if end > partition.log_start else None


def _confirmed_end(partition: ShelvedPartition) -> int:
    """Up to where those who should have what the log has too have just said that they do; as many as have the log."""
    end = 0
    copies = len(partition.spec.copy_sets[-1] if partition.spec.copy_sets else partition.spec.replicas)
    for shelf in partition.spec.shelves:
        having = sum(_copied_end(partition, shelf, spu) >= shelf.end for spu in shelf.stores)
        if shelf.end > partition.log_start and having < max(copies, len(shelf.stores)):
            break
        end = shelf.end
    return end


def _growth(partition: ShelvedPartition) -> Step | None:
    """The next segment for the last shelf, or another shelf."""
    spec, online = partition.spec, partition.online
    last = spec.shelves[-1] if spec.shelves else None
    start = partition.log_start if last is None else last.end
    end = _next_end(partition, start)
    if end is None:
        return None
    if last is None or _is_large(partition, last) or not online.issuperset(last.stores):
        is_empty = last is not None and last.base == last.end  # who keeps that is the Streaming Controller's to change
        return Report(next_base=start) if not is_empty and online.difference(spec.replicas) else None
    lacking = tuple(spu for spu in last.stores if _copied_end(partition, last, spu) < end)
    if not lacking:
        filled = tuple(Filled(last.base, spu, end) for spu in last.stores)
        return Report(filled=filled) if filled else None
    return None if partition.failed.intersection(lacking) else Fill(last.base, end, lacking)


def _next_end(partition: ShelvedPartition, start: int) -> int | None:
    """Where the next segment ends that may be put on a shelf."""
    if not partition.wants_more_shelves or start < max(partition.log_start, partition.compacted_end):
        return None
    end_max = min(partition.high_watermark, partition.synced_end)
    return next((each.end for each in partition.segments[:-1] if start < each.end <= end_max), None)


def _is_large(partition: ShelvedPartition, shelf: Shelf) -> bool:
    contents = partition.contents.get(shelf.base, ())
    return sum(each.base < shelf.end for each in contents) >= SEGMENTS_PER_SHELF_MAX


def _repair(partition: ShelvedPartition) -> Step | None:
    """Who has lost something of a shelf, or has not got it yet."""
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
    """Up to where the SPU has the shelf; of one on which nothing is, everybody has all."""
    return partition.copies.get((shelf.base, spu), shelf.base if shelf.base == shelf.end else NOWHERE)
