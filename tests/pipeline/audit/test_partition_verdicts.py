import crc32c
import pytest

from tailrace.pipeline.audit.audit_tasks import TaskFacts
from tailrace.pipeline.audit.audit_verdicts import Bridge, EpochDifference, Finding, Hole, RangeFacts, Verdict
from tailrace.pipeline.audit.copy_scanning import SegmentPart
from tailrace.pipeline.audit.partition_verdicts import findings_of, followed_by, mismatched


def _facts(*findings: Finding, **others: object) -> TaskFacts:
    return TaskFacts(RangeFacts(list(findings), **others), bytes=[0], stamped=[(0, -1)] * 2)  # type: ignore[arg-type]


def test_findings_that_go_on_in_the_next_range_are_one() -> None:
    one, other = (Finding(0, Verdict.MISSING, first, first + 9, f"from {first}") for first in (10, 20))
    (found,) = findings_of([_facts(one), _facts(other)])
    assert (found.first, found.last, found.sentence) == (10, 29, "from 10")
    apart = Finding(1, Verdict.MISSING, 30, 39, "")
    assert len(findings_of([_facts(one), _facts(apart)])) == 2


def test_a_bridge_of_a_later_range_explains_a_hole_and_epochs() -> None:
    hole = _facts(holes=[Hole(10, 19, 4, (0,))], differences=[EpochDifference(20, 29, ((0, 3), (1, 4)))])
    assert findings_of([hole, _facts(bridges=[Bridge(40, 4)])]) == []
    assert [each.verdict for each in findings_of([hole, _facts()])] == [
        Verdict.HOLE,
        Verdict.DIVERGED,
        Verdict.DIVERGED,
    ]


def test_the_checksum_of_two_texts_follows_from_theirs() -> None:
    one, other = b"some headers" * 10, bytes(range(256)) * 600
    whole = crc32c.crc32c(one + other)
    assert followed_by(crc32c.crc32c(one), crc32c.crc32c(other), len(other)) == whole
    assert followed_by(0, crc32c.crc32c(one), len(one)) == crc32c.crc32c(one)


def _part(first: int, last: int, headers: bytes, expected: bytes, size: int = 300) -> SegmentPart:
    return SegmentPart(0, 0, 30, size, crc32c.crc32c(expected), first, last, len(headers) // 21, crc32c.crc32c(headers))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_segment_is_judged_when_all_of_it_was_read(order: tuple[int, int]) -> None:
    headers = bytes(range(63))
    parts = [_part(0, 200, headers[:42], headers), _part(200, 300, headers[42:], headers)]
    ranges = [_facts() for _ in parts]
    for facts, number in zip(ranges, order, strict=True):
        facts.parts = [parts[number]]
    assert mismatched(ranges) == []
    parts[1] = _part(200, 300, headers[:21], headers)
    for facts, number in zip(ranges, order, strict=True):
        facts.parts = [parts[number]]
    assert len(mismatched(ranges)) == 1
    (found,) = findings_of(ranges)
    assert (found.verdict, found.first, found.last) == (Verdict.ROTTEN, 0, 29)
    assert mismatched(ranges[:1]) == []
