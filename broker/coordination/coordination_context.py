"""The parts of an SPU that coordinators use."""

from collections.abc import Awaitable, Callable

import trio
from msgspec import Struct

from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.cluster import Cluster
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock


class CoordinationContext(Struct, frozen=True):
    cluster: Cluster
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
