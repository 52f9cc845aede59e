"""Puts together what the ranges of a partition have shown: the findings about each copy."""

from collections.abc import Iterable, Iterator, Sequence

import crc32c

from tailrace.protocol.batches.record_batch import CRC_START

from .audit_tasks import TaskFacts
from .audit_verdicts import EpochDifference, Finding, Verdict
from .copy_scanning import SegmentPart
from .recovery_verdicts import RecoveryVerdicts, Stamps

_ZEROS = bytes(64 * 1024)


def findings_of(facts: Sequence[TaskFacts]) -> list[Finding]:
    """Returns the findings about a partition, from the facts of its ranges in the order of offsets."""
    if not facts:
        return []
    found = _joined(finding for each in facts for finding in each.compared.findings)
    recoveries = RecoveryVerdicts(
        [bridge for each in facts for bridge in each.compared.bridges],
        [Stamps(*stamped) for stamped in _latest_stamps(facts)],
    )
    unfinished = frozenset(copy for each in facts for copy in each.unfinished)
    found += recoveries.of_holes([hole for each in facts for hole in each.compared.holes], unfinished)
    found += recoveries.of_differences(_joined_differences(facts))
    found += recoveries.of_falls([fall for each in facts for fall in each.compared.falls])
    damaged = {(each.copy, offset) for each in found for offset in (each.first, each.last)}
    for part in mismatched(facts):
        # A batch that is wrong by itself says more than its segment.
        if not any(copy == part.copy and part.base <= offset < part.end for copy, offset in damaged):
            sentence = (
                f"the headers of the batches in the segment of offset {part.base} do not match the checksum in the "
                "manifest"
            )
            found.append(Finding(part.copy, Verdict.ROTTEN, part.base, part.end - 1, sentence))
    # That an offset is missing says less than that it had a bridge.
    bridges = {(each.copy, each.first, each.last) for each in found if each.verdict is Verdict.BRIDGE}
    found = [
        each
        for each in found
        if each.verdict is not Verdict.MISSING or (each.copy, each.first, each.last) not in bridges
    ]
    return sorted(set(found), key=lambda each: (each.copy, each.first, each.verdict))


def mismatched(facts: Iterable[TaskFacts]) -> list[SegmentPart]:
    """Returns the segments, by their first parts, whose headers do not match the checksum in the manifest.

    A segment that was read only in part is not judged.
    """
    by_segment: dict[tuple[int, int, int, int], list[SegmentPart]] = {}
    for each in facts:
        for part in each.parts:
            by_segment.setdefault((part.copy, part.base, part.size, part.checksum), []).append(part)
    wrong = []
    for (_, _, size, checksum), parts in by_segment.items():
        parts.sort(key=lambda each: each.first)
        position = found = 0
        for part in parts:
            if part.first != position:
                break
            found = followed_by(found, part.found, part.batches * CRC_START)
            position = part.last
        if position == size and found != checksum:
            wrong.append(parts[0])
    return wrong


def followed_by(first: int, second: int, size: int) -> int:
    """Returns the checksum of two texts, from the checksum of each and the size of the second.

    Checksums of equal length are linear. So the difference that the first text makes is that between its checksum and
    that of no text, after the same number of zeros.
    """
    return _after_zeros(first, size) ^ _after_zeros(0, size) ^ second


def _after_zeros(checksum: int, size: int) -> int:
    while size > 0:
        checksum = crc32c.crc32c(_ZEROS[:size], checksum)
        size -= len(_ZEROS)
    return checksum


def _joined(findings: Iterable[Finding]) -> list[Finding]:
    """Joins findings that go on in the next range."""
    last: dict[tuple[int, Verdict], Finding] = {}
    found: list[Finding] = []
    for each in findings:
        before = last.get((each.copy, each.verdict))
        if before is not None and before.last + 1 == each.first and each.verdict is not Verdict.BRIDGE:
            found.remove(before)
            each = Finding(each.copy, each.verdict, before.first, each.last, before.sentence)
        elif before is not None and before.last == each.last and before.first <= each.first:
            continue
        last[each.copy, each.verdict] = each
        found.append(each)
    return found


def _joined_differences(facts: Sequence[TaskFacts]) -> Iterator[EpochDifference]:
    before: EpochDifference | None = None
    for each in (each for every in facts for each in every.compared.differences):
        if before is not None and before.epochs == each.epochs and before.last + 1 == each.first:
            before = EpochDifference(before.first, each.last, each.epochs)
            continue
        if before is not None:
            yield before
        before = each
    if before is not None:
        yield before


def _latest_stamps(facts: Sequence[TaskFacts]) -> list[tuple[int, int]]:
    """Returns the stamps of each copy. They only grow, so the largest are the latest."""
    return [(max(end for end, _ in copy), max(epoch for _, epoch in copy)) for copy in _by_copy(facts)]


def _by_copy(facts: Sequence[TaskFacts]) -> list[tuple[tuple[int, int], ...]]:
    return list(zip(*(each.stamped for each in facts), strict=True))
