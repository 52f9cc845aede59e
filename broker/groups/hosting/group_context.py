"""The parts of an SPU that its group coordinators use."""

from collections.abc import Awaitable, Callable

import trio
from msgspec import Struct

from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock


class GroupContext(Struct, frozen=True):
    cluster: Cluster
    settings: Callable[[str], GroupSettings]
    """Returns the settings of the group with this id."""
    commit_seconds_max: Callable[[], float]
    """How long a response may wait for the commit of its records."""
    new_id: Callable[[], str]
    """Returns a new random UUID as text."""
    counts: GroupCounts
    is_sure_to_lead: Callable[[Replica], bool]
    """Returns whether this SPU certainly leads the replica, because its lease has not expired."""
    wall_clock: WallClock
    deadlines: Deadlines
    nursery: trio.Nursery
    on_appended: Callable[[Replica], None]
    end_turn: Callable[[], None]
    repair: Callable[[Replica, int], Awaitable[object]]
    """Repairs corrupt batches soon after the offset from other copies, if there are any."""
    logger: FilteringBoundLogger


def not_coordinator() -> KafkaError:
    return KafkaError(ErrorCode.NOT_COORDINATOR, "this SPU is not the coordinator of the group")
