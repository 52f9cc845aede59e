"""What the hosting of coordinators must know of groups. The modules of groups are imported when they are needed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.coordination.coordination_names import CoordinationNames
from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.runtime.logs import FilteringBoundLogger

if TYPE_CHECKING:
    from tailrace.broker.coordination.coordinator_kind import CoordinatorHost, RecordFormat
    from tailrace.broker.groups.coordinator.coordinator import Coordinator


class GroupCoordinatorKind:
    names = CoordinationNames(GROUPS_TOPIC, "group", "groups")

    def __init__(
        self,
        settings: Callable[[str], GroupSettings],
        cluster: Cluster,
        new_id: Callable[[], str],
        counts: GroupCounts,
        commit_seconds_max: Callable[[], float],
    ) -> None:
        self._settings = settings
        """Returns the settings of the group with this id."""
        self._cluster = cluster
        self._new_id = new_id
        """Returns a new random UUID as text."""
        self._counts = counts
        self.commit_seconds_max = commit_seconds_max

    def record_format(self) -> "RecordFormat":
        from tailrace.broker.coordination.coordinator_kind import RecordFormat
        from tailrace.broker.groups.common.coordinator_records import BARRIER, decode_record, encode_record

        return RecordFormat(encode_record, decode_record, BARRIER)

    def new_coordinator(self, partition: "CoordinatorHost[Coordinator]") -> "Coordinator":
        from tailrace.broker.groups.coordinator.coordinator import Coordinator

        return Coordinator(self._settings, self._cluster, self._new_id, self._counts)

    # logs and metrics

    def on_loaded(self, logger: FilteringBoundLogger, coordinator: "Coordinator", records: int, seconds: float) -> None:
        if records:  # most of the many partitions have no groups and are not worth a line
            groups = len(coordinator.groups)
            logger.info("groups_loaded", groups=groups, records=records, seconds=round(seconds, 3))
        self._counts.group_loads += 1
        self._counts.group_load_seconds += seconds

    def on_unloaded(self, logger: FilteringBoundLogger, coordinator: "Coordinator") -> None:
        if coordinator.groups:
            logger.info("groups_unloaded", groups=len(coordinator.groups))

    def on_not_loaded(self, logger: FilteringBoundLogger, **details: object) -> None:
        logger.error("groups_not_loaded", **details)

    def on_restarted(self, logger: FilteringBoundLogger, error: Exception) -> None:
        logger.error("groups_restarted", exc_info=error)

    def on_record_skipped(self, logger: FilteringBoundLogger, **details: object) -> None:
        logger.error("group_record_skipped", **details)
