from itertools import pairwise

from msgspec.structs import replace
from spus import SteadyClock

from tailrace.controller.objects.objects import Partition, PartitionResolution, PartitionSpec, PartitionStatus
from tailrace.controller.state.status_changes import CHANGES_MAX, StatusChanges
from tailrace.protocol.ids import Epoch, SpuId, TopicId

ORDERS = TopicId(int=7)


def _partition(resolution: PartitionResolution, epoch: int = 0) -> Partition:
    status = PartitionStatus(resolution, SpuId(1), Epoch(epoch))
    return Partition("orders", ORDERS, 0, PartitionSpec(SpuId(1), (SpuId(1), SpuId(2))), status)


def _note(changes: StatusChanges, *partitions: Partition) -> None:
    for before, after in pairwise(partitions):
        changes.note(before.status, after)


def test_each_status_that_came_later_is_told_in_its_order() -> None:
    changes = StatusChanges(clock := SteadyClock())
    online, election = _partition(PartitionResolution.ONLINE), _partition(PartitionResolution.ELECTION)
    found = [_partition(PartitionResolution.CANDIDATE_FOUND, epoch) for epoch in (1, 2)]
    began = changes.last_us
    assert changes.after(began) == []
    _note(changes, online, election, found[0])
    seen = changes.last_us
    clock.time_ms += 5
    _note(changes, *found, _partition(PartitionResolution.ONLINE, 2))
    told = [(each.resolution, each.epoch) for each in changes.after(began)]
    assert told == [
        (PartitionResolution.ELECTION, 0),
        (PartitionResolution.CANDIDATE_FOUND, 1),
        (PartitionResolution.CANDIDATE_FOUND, 2),
        (PartitionResolution.ONLINE, 2),
    ]
    assert changes.after(seen) == changes.after(began)[2:]
    assert changes.after(seen)[0].time_us == clock.time_ms * 1000
    assert changes.after(changes.last_us) == []


def test_a_change_without_a_new_status_is_not_recorded() -> None:
    changes = StatusChanges(SteadyClock())
    before = _partition(PartitionResolution.ONLINE)
    _note(changes, before, replace(before, status=replace(before.status, live_version=1)))
    assert changes.after(0) == []


def test_each_has_a_time_of_its_own_even_when_the_clock_goes_back() -> None:
    changes = StatusChanges(clock := SteadyClock())
    statuses = [_partition(PartitionResolution.CANDIDATE_FOUND, epoch) for epoch in range(4)]
    _note(changes, *statuses[:3])
    clock.time_ms -= 60_000
    _note(changes, *statuses[2:])
    times = [each.time_us for each in changes.after(0)]
    assert len(times) == len(set(times)) == 3
    assert times == sorted(times)


def test_only_the_last_ones_are_kept() -> None:
    changes = StatusChanges(SteadyClock())
    _note(changes, *(_partition(PartitionResolution.CANDIDATE_FOUND, epoch) for epoch in range(CHANGES_MAX + 3)))
    assert [each.epoch for each in changes.after(0)] == list(range(3, CHANGES_MAX + 3))
