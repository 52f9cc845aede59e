"""What a log does for a compaction after it has changed. Whole compactions: test_log_compaction."""

import pytest
from compacted_logs import DIRECTORY, append, batches, log_of
from msgspec.structs import replace

from tailrace.storage.compaction.log_compaction import (
    NewSegment,
)
from tailrace.storage.indexes.index_entries import IndexEntries
from tailrace.storage.log.compaction_steps import CompactionSteps

pytestmark = pytest.mark.trio


async def test_records_appended_after_a_truncation_do_not_count_as_compacted() -> None:
    """Otherwise their tombstones would go before the records that they delete."""
    log = log_of([("a", "1"), ("b", "1")], [("c", "1"), ("c", "2")])
    await log.sync()
    steps = CompactionSteps(log, log.rewrites)
    await log.truncate(3)
    append(log, ("a", None), epoch=1)
    assert not await steps.note_compaction(4, 0)
    assert not log.compactions


async def test_a_segment_that_was_stamped_meanwhile_is_not_replaced() -> None:
    """The rewritten segment has the old epochs."""
    log = log_of([("a", "1"), ("a", "2")])
    await log.sync()
    old = log.segment_list.sealed[:1]
    written = NewSegment(f"{DIRECTORY}/written", replace(old[0].facts), IndexEntries(100))
    steps = CompactionSteps(log, log.rewrites)
    await log.restamp(1, 2, 5)
    await log.sync()
    assert not await steps.replace_segments(old, written)
    assert [header.leader_epoch for header, _ in batches(log)] == [0, 5]
