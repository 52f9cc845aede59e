"""Tests of what is logged and counted when groups are loaded and unloaded."""

import structlog
from grouping import GroupWorld, Sleeper
from structlog.testing import capture_logs

from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.broker.groups.hosting.group_coordinator_kind import GroupCoordinatorKind
from tailrace.cluster.cluster import Cluster


def test_only_partitions_with_records_or_groups_are_worth_a_line() -> None:
    counts, coordinator = GroupCounts(), GroupWorld().coordinator
    kind = GroupCoordinatorKind(lambda group_id: GroupSettings(), Cluster(), lambda: "id", counts, lambda: 5.0)
    with capture_logs() as logged:
        logger = structlog.get_logger()
        kind.on_loaded(logger, coordinator, 0, 0.25)
        kind.on_unloaded(logger, coordinator)
        coordinator.table.put(Sleeper("g"))
        kind.on_loaded(logger, coordinator, 7, 0.5)
        kind.on_unloaded(logger, coordinator)
    assert logged == [
        {"event": "groups_loaded", "log_level": "info", "groups": 1, "records": 7, "seconds": 0.5},
        {"event": "groups_unloaded", "log_level": "info", "groups": 1},
    ]
    assert (counts.group_loads, counts.group_load_seconds) == (2, 0.75)


def test_the_barrier_has_no_effect() -> None:
    world = GroupWorld()
    kind = GroupCoordinatorKind(lambda group_id: GroupSettings(), Cluster(), lambda: "id", GroupCounts(), lambda: 5.0)
    records = kind.record_format()
    decoded = records.decode(*records.encode(records.barrier))
    assert decoded == records.barrier
    world.coordinator.replay(decoded)
    assert not world.coordinator.groups
    assert not world.coordinator.offsets.committed.group_ids()
