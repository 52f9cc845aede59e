"""Decisions of a leader about its shelves."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.shelves.offload_plan import (
    SEGMENTS_PER_SHELF_MAX,
    AdvanceLogStart,
    Fill,
    Filled,
    Report,
    ShelvedPartition,
    next_step,
)
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec, Shelf
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.storage.manifest.manifest import SegmentFacts

LEADER, FOLLOWER, ONE, TWO, THREE = map(SpuId, (1, 2, 3, 4, 5))
SPEC = PartitionSpec(UUID(int=7), "t", 0, LEADER, Epoch(5), (LEADER, FOLLOWER), (LEADER, FOLLOWER))
NOW = 1_000_000
KEEPS = {"remote.storage.enable": "true", "retention.ms": "-1"}
"""Configs that keep everything, in the log and on shelves."""


def segments(*bases: int, size: int = 100, time: int = NOW) -> list[SegmentFacts]:
    """Makes segments, each from one of the bases to the next."""
    return [
        SegmentFacts(base, end, size=size, first_timestamp=time, max_timestamp=time) for base, end in pairwise(bases)
    ]


def partition(
    *shelves: Shelf,
    log: Iterable[SegmentFacts] = (),
    copied_ends: dict[tuple[int, SpuId], int] | None = None,
    online: Iterable[SpuId] = (LEADER, FOLLOWER, ONE, TWO, THREE),
    configs: dict[str, str] = KEEPS,
    shelved_from: int = 0,
    **more: Any,
) -> ShelvedPartition:
    """Makes a partition with ten records in its open segment; by default, all stores have confirmed their shelves."""
    held = list(log)
    log_start = held[0].base if held else shelves[-1].end if shelves else 0
    end = held[-1].end if held else log_start
    held.append(SegmentFacts(end, end + 10, size=100, first_timestamp=NOW, max_timestamp=NOW))
    if copied_ends is None:
        copied_ends = {(shelf.base, spu): shelf.end for shelf in shelves for spu in shelf.stores}
    settings = settings_of(configs, BrokerConfigs({}))
    view = ShelvedPartition(
        replace(SPEC, shelves=shelves, shelved_from=shelved_from),
        settings,
        settings.shelves,
        log_start,
        held,
        end + 10,
        end + 10,
        0,
        NOW,
        frozenset(online),
        copied_ends=copied_ends,
    )
    return replace(view, **more)


def both(base: int, end: int, filling: tuple[SpuId, ...] = ()) -> Shelf:
    return Shelf(base, end, (ONE, TWO), filling)


# growth


def test_nothing_is_done_if_there_is_only_an_open_segment() -> None:
    assert next_step(partition()) is None
    assert next_step(partition(both(0, 100))) is None


def test_the_first_shelf_begins_at_the_log_start() -> None:
    assert next_step(partition(log=segments(30, 100, 200))) == Report(next_base=30)


def test_segments_move_to_the_last_shelf_one_after_the_other() -> None:
    log = segments(0, 100, 200, 300)
    assert next_step(partition(both(0, 0), log=log)) == Fill(0, 100, (ONE, TWO))
    assert next_step(partition(both(0, 0), log=log, copied_ends={(0, ONE): 100})) == Fill(0, 100, (TWO,))
    copied = {(0, ONE): 100, (0, TWO): 130}
    filled = Filled(0, ONE, 100), Filled(0, TWO, 100)
    assert next_step(partition(both(0, 0), log=log, copied_ends=copied)) == Report(filled=filled)
    assert next_step(partition(both(0, 100), log=log)) == Fill(0, 200, (ONE, TWO))


@pytest.mark.parametrize("limit", ["high_watermark", "synced_end", "stable_end"])
def test_uncommitted_unsynced_or_undecided_segments_do_not_move(limit: str) -> None:
    for end, step in ((99, None), (100, Fill(0, 100, (ONE, TWO))), (199, Fill(0, 100, (ONE, TWO)))):
        assert next_step(partition(both(0, 0), log=segments(0, 100, 200), **{limit: end})) == step


def test_compacted_segments_do_not_move() -> None:
    log = segments(0, 100, 200)
    assert next_step(partition(log=log, compacted_end=1)) is None
    assert next_step(partition(both(0, 100), log=log, compacted_end=100)) == Fill(0, 200, (ONE, TWO))


def test_nothing_moves_after_shelves_are_disabled() -> None:
    log = segments(0, 100, 200)
    assert next_step(partition(log=log, wants_more_shelves=False)) is None
    assert next_step(partition(both(0, 100), log=log, wants_more_shelves=False)) is None


def test_another_shelf_begins_when_the_last_one_is_large() -> None:
    bases = range(0, 100 * SEGMENTS_PER_SHELF_MAX + 200, 100)
    end, log = 100 * SEGMENTS_PER_SHELF_MAX, segments(*bases)
    known = {0: segments(*bases)}
    assert next_step(partition(both(0, end), log=log, contents=known)) == Report(next_base=end)
    assert next_step(partition(both(0, end - 100), log=log, contents=known)) == Fill(0, end, (ONE, TWO))


def test_another_shelf_begins_when_a_store_of_the_last_one_is_offline() -> None:
    log, online = segments(0, 100, 200), (LEADER, FOLLOWER, ONE, THREE)
    assert next_step(partition(both(0, 100), log=log, online=online)) == Report(next_base=100)
    assert next_step(partition(both(0, 0), log=log, online=online)) is None, "the last shelf is still empty"


def test_no_shelf_begins_without_an_spu_that_could_store_it() -> None:
    online = LEADER, FOLLOWER
    assert next_step(partition(log=segments(0, 100), online=online)) is None
    assert next_step(partition(both(0, 100), log=segments(0, 100, 200), online=online)) is None


def test_a_store_that_failed_is_not_asked_again_in_this_turn() -> None:
    view = partition(both(0, 0), log=segments(0, 100), failed=frozenset((ONE,)))
    assert next_step(view) is None


# copies


def test_all_stores_are_asked_first_what_they_have() -> None:
    first, second = both(0, 100, filling=(THREE,)), both(100, 200)
    view = partition(first, second, both(200, 200), copied_ends={(0, ONE): 100})
    assert next_step(view) == Fill(0, 100, (TWO, THREE))
    view = replace(view, online=view.online - {TWO}, copied_ends={(0, ONE): 100, (0, THREE): 100})
    assert next_step(view) == Fill(100, 200, (ONE,))
    assert next_step(replace(view, failed=frozenset((ONE,)))) == Report(filled=(Filled(0, THREE, 100),))


def test_an_spu_that_has_filled_a_shelf_becomes_a_store() -> None:
    shelf = both(0, 100, filling=(THREE,))
    has_all = {(0, ONE): 100, (0, TWO): 100, (0, THREE): 140}
    assert next_step(partition(shelf, copied_ends=has_all)) == Report(filled=(Filled(0, THREE, 100),))
    assert next_step(partition(shelf, copied_ends={**has_all, (0, THREE): 99})) == Fill(0, 100, (THREE,))


def test_an_spu_that_fills_an_empty_shelf_has_all_of_it() -> None:
    assert next_step(partition(both(0, 0, filling=(THREE,)))) == Report(filled=(Filled(0, THREE, 0),))


def test_a_store_that_has_lost_its_copy_fills_it_again() -> None:
    has_lost = {(0, ONE): 0, (0, TWO): 100}
    assert next_step(partition(both(0, 100), copied_ends=has_lost)) == Fill(0, 100, (ONE,))
    assert next_step(partition(both(0, 100), copied_ends=has_lost, failed=frozenset((ONE,)))) is None
    assert next_step(partition(both(0, 100), copied_ends=has_lost, online=(ONE,))) == Fill(0, 100, (ONE,))


# local retention


LOCAL = {**KEEPS, "local.retention.ms": "1000"}
OLD = NOW - 1001


def test_local_retention_deletes_shelved_segments_by_age() -> None:
    log = segments(0, 100, 200, 300, time=OLD)
    assert next_step(partition(both(0, 200), log=log, configs=LOCAL)) == AdvanceLogStart(200, is_local=True)
    young = [*segments(0, 100, time=OLD), *segments(100, 200, 300)]
    assert next_step(partition(both(0, 200), log=young, configs=LOCAL)) == AdvanceLogStart(100, is_local=True)


def test_local_retention_deletes_shelved_segments_by_size() -> None:
    log, configs = segments(0, 100, 200, 300, 400), {**KEEPS, "local.retention.bytes": "200"}
    assert next_step(partition(both(0, 400), log=log, configs=configs)) == AdvanceLogStart(300, is_local=True)
    assert next_step(partition(both(0, 200), log=log, configs=configs)) == AdvanceLogStart(200, is_local=True)


def test_segments_on_no_shelf_stay_in_the_log() -> None:
    log = segments(0, 100, 200, time=OLD)
    assert next_step(partition(log=log, configs=LOCAL, online=())) is None
    assert next_step(partition(both(0, 199), log=log, configs=LOCAL)) == AdvanceLogStart(100, is_local=True)


def test_local_retention_goes_on_without_the_streaming_controller() -> None:
    has_all = {(0, ONE): 100, (0, TWO): 100, (0, THREE): 100}
    view = partition(both(0, 100, filling=(THREE,)), log=segments(0, 100, time=OLD), configs=LOCAL, copied_ends=has_all)
    assert next_step(view) == Report(filled=(Filled(0, THREE, 100),))
    assert next_step(replace(view, may_report=False)) == AdvanceLogStart(100, is_local=True)
    assert next_step(partition(log=segments(0, 100), may_report=False)) is None


def test_the_open_segment_stays_even_if_another_leader_has_shelved_its_records() -> None:
    view = partition(log=segments(0, 100), configs={**KEEPS, "local.retention.bytes": "0"}, copied_ends={})
    view = replace(view, spec=replace(SPEC, shelves=(both(0, 110),)), copied_ends={(0, ONE): 110, (0, TWO): 110})
    assert next_step(view) == AdvanceLogStart(100, is_local=True)
    assert next_step(replace(view, log_start=100, segments=view.segments[1:])) is None


def test_local_retention_applies_even_without_a_cleanup_policy() -> None:
    log, configs = segments(0, 100, time=OLD), {**LOCAL, "cleanup.policy": ""}
    assert next_step(partition(both(0, 100), log=log, configs=configs)) == AdvanceLogStart(100, is_local=True)


@pytest.mark.parametrize("copied_ends", [{(0, ONE): 200}, {(0, ONE): 200, (0, TWO): 199}, {}])
def test_the_log_keeps_segments_that_a_store_does_not_confirm(copied_ends: dict[tuple[int, SpuId], int]) -> None:
    view = partition(both(0, 200), log=segments(0, 100, 200, time=OLD), configs=LOCAL, copied_ends=copied_ends)
    assert next_step(replace(view, failed=frozenset((ONE, TWO)))) is None


def test_an_offline_store_of_an_older_shelf_does_not_stop_local_retention() -> None:
    shelves, log = (both(0, 100), Shelf(100, 300, (ONE, THREE))), segments(100, 200, 300, time=OLD)
    copied_ends = {(100, ONE): 300, (100, THREE): 300}
    view = partition(*shelves, log=log, configs=LOCAL, copied_ends=copied_ends, failed=frozenset((TWO, ONE)))
    assert next_step(view) == AdvanceLogStart(300, is_local=True)


def test_a_shelf_needs_as_many_stores_as_there_are_replicas() -> None:
    view = partition(Shelf(0, 200, (ONE,)), log=segments(0, 100, 200, time=OLD), configs=LOCAL)
    assert next_step(view) is None
    alone = replace(view.spec, replicas=(LEADER,))
    assert next_step(replace(view, spec=alone)) == AdvanceLogStart(200, is_local=True)
    coming = replace(view.spec, copy_sets=((LEADER,),))
    assert next_step(replace(view, spec=coming)) == AdvanceLogStart(200, is_local=True), "whose copy does not count yet"


# total retention

DAY = {**KEEPS, "retention.ms": "1000"}


def test_without_shelves_total_retention_deletes_from_the_log() -> None:
    view = partition(log=segments(0, 100, 200, time=OLD), configs=DAY, online=())
    assert next_step(view) == AdvanceLogStart(200, is_local=False)


def test_total_retention_deletes_even_the_open_segment() -> None:
    view = partition(configs=DAY, online=(), now_ms=NOW + 1001)
    assert next_step(view) == AdvanceLogStart(10, is_local=False)


def test_total_retention_deletes_from_shelves_by_age() -> None:
    old = {0: segments(0, 100, 200, time=OLD), 200: [*segments(200, 300, time=OLD), *segments(300, 400)]}
    view = partition(both(0, 200), both(200, 400), configs=DAY, contents=old)
    assert next_step(view) == Report(shelved_from=300)
    assert next_step(replace(view, spec=replace(view.spec, shelved_from=300))) is None


def test_total_retention_counts_shelves_and_log_together() -> None:
    configs, log = {**KEEPS, "retention.bytes": "400"}, segments(200, 300)
    contents = {0: segments(0, 100, 200)}
    assert next_step(partition(both(0, 300), log=log, configs=configs, contents=contents)) is None
    view = partition(both(0, 300), log=log, configs={**configs, "retention.bytes": "300"}, contents=contents)
    assert next_step(view) == Report(shelved_from=100)
    assert next_step(replace(view, spec=replace(view.spec, shelved_from=100))) is None, "the segment is deleted already"


def test_segments_on_a_shelf_and_in_the_log_count_once() -> None:
    configs, contents = {**KEEPS, "retention.bytes": "400"}, {0: segments(0, 100, 200, 300)}
    assert (
        next_step(partition(both(0, 300), log=segments(0, 100, 200, 300), configs=configs, contents=contents)) is None
    )


def test_a_segment_that_is_partly_in_the_log_causes_no_early_deletion() -> None:
    contents, log = {0: segments(0, 100, 200, 300)}, segments(150, 300, size=150)
    for bytes_max, step in ("350", None), ("250", Report(shelved_from=100)):
        view = partition(both(0, 300), log=log, configs={**KEEPS, "retention.bytes": bytes_max}, contents=contents)
        assert next_step(replace(view, log_start=200)) == step


def test_a_log_that_begins_within_a_shelved_segment_causes_no_early_deletion() -> None:
    """A new replica got the log from the middle of a shelved segment on (found by seed 81000752)."""
    contents, log = {0: segments(0, 100, 200, 300)}, segments(250, 300, size=50)
    for bytes_max, step in ("350", None), ("250", Report(shelved_from=100)):
        view = partition(both(0, 300), log=log, configs={**KEEPS, "retention.bytes": bytes_max}, contents=contents)
        assert next_step(view) == step


def test_a_copy_beyond_the_end_of_its_shelf_causes_no_early_deletion() -> None:
    """A store has filled its copy beyond the end that is reported (found by seed 83000165)."""
    contents, log = {0: [*segments(0, 100, 200), *segments(200, 350, size=150)]}, segments(300, 400)
    for bytes_max, step in ("410", None), ("250", Report(shelved_from=100)):
        view = partition(both(0, 300), log=log, configs={**KEEPS, "retention.bytes": bytes_max}, contents=contents)
        assert next_step(replace(view, wants_more_shelves=False)) == step


def test_the_log_is_deleted_first_if_retention_reaches_into_it() -> None:
    contents = {0: segments(0, 100, 200, time=OLD)}
    log = [*segments(100, 200, time=OLD), *segments(200, 300, 400, time=OLD)]
    view = partition(both(0, 200), log=log, configs=DAY, contents=contents)
    assert next_step(view) == AdvanceLogStart(400, is_local=False)
    view = replace(view, log_start=400, segments=view.segments[-1:])
    assert next_step(view) == Report(shelved_from=400)


def test_nothing_is_deleted_behind_unknown_segments() -> None:
    known = {100: segments(100, 200, time=OLD)}
    view = partition(both(0, 100), both(100, 200), log=segments(200, 300, time=OLD), configs=DAY, contents=known)
    assert next_step(replace(view, wants_more_shelves=False)) is None
    in_part = {**known, 0: segments(0, 50, time=OLD)}
    assert next_step(replace(view, wants_more_shelves=False, contents=in_part)) is None


def test_shelves_are_kept_without_a_cleanup_policy() -> None:
    contents = {0: segments(0, 100, time=OLD)}
    assert next_step(partition(both(0, 100), configs={**DAY, "cleanup.policy": ""}, contents=contents)) is None


# deleted records


def test_deleted_records_are_deleted_from_shelves() -> None:
    view = partition(both(0, 200), delete_before=70)
    assert next_step(view) == Report(shelved_from=70)
    assert next_step(partition(both(0, 200), delete_before=270)) == Report(shelved_from=200), "not beyond the log start"
    assert next_step(partition(both(0, 200), delete_before=70, shelved_from=70)) is None


def test_shelves_are_removed_when_all_their_records_are_deleted() -> None:
    view = partition(both(0, 200), log=segments(300, 400))
    assert next_step(view) == Report(shelved_from=300)
    assert next_step(replace(view, spec=SPEC)) == Report(next_base=300)


# the whole plan


def _shown(spec: PartitionSpec, report: Report) -> PartitionSpec:
    """Returns the spec that the Streaming Controller would make of a report."""
    shelves, start = spec.shelves, max(spec.shelved_from, report.shelved_from)
    if report.next_base >= 0:
        start = start if shelves else report.next_base
        shelves += (Shelf(report.next_base, report.next_base, (ONE, TWO)),)
    for filled in report.filled:
        shelves = tuple(replace(each, end=filled.end) if each.base == filled.base else each for each in shelves)
    left = tuple(each for each in shelves if each.end > start or each.base >= start)
    return replace(spec, shelved_from=start, shelves=left)


def test_a_long_log_moves_to_shelves_as_far_as_allowed() -> None:
    bases = range(0, 4100, 100)
    configs = {**KEEPS, "local.retention.bytes": "300", "retention.bytes": "2000"}
    view = partition(log=segments(*bases), configs=configs)
    steps = 0
    while (step := next_step(view)) is not None:
        steps += 1
        assert steps < 200
        match step:
            case Report():
                view = replace(view, spec=_shown(view.spec, step))
            case AdvanceLogStart():
                left = [each for each in view.segments if each.end > step.log_start]
                view = replace(view, log_start=step.log_start, segments=left)
            case Fill():
                copied_ends = {**view.copied_ends, **{(step.base, spu): step.end for spu in step.spus}}
                contents = {**view.contents, step.base: segments(*range(step.base, step.end + 1, 100))}
                view = replace(view, copied_ends=copied_ends, contents=contents)
    assert [each.base for each in view.segments] == [3800, 3900, 4000]
    assert view.spec.shelved_from == 2100
    assert [(each.base, each.end) for each in view.spec.shelves] == [(2100, 3700), (3700, 4000)]
