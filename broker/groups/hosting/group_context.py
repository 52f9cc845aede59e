"""What coordinators of groups need of the SPU around them."""

from collections.abc import Awaitable, Callable

import trio
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.wall_clock import WallClock


class GroupContext(Struct, frozen=True):
    cluster: Cluster
    settings: Callable[[str], GroupSettings]
    """By the group's id."""
    commit_seconds_max: Callable[[], float]
    """How long an answer waits for what it tells of to be committed."""
    new_id: Callable[[], str]
    """A random UUID as a text."""
    counts: GroupCounts
    is_sure_to_lead: Callable[[Replica], bool]
    wall_clock: WallClock
    deadlines: Deadlines
    nursery: trio.Nursery
    on_appended: Callable[[Replica], None]
    end_turn: Callable[[], None]
    mend: Callable[[Replica, int], Awaitable[object]]
    """What is damaged soon after the offset, if copies elsewhere allow it."""
    logger: FilteringBoundLogger


def not_coordinator() -> KafkaError:
    return KafkaError(ErrorCode.NOT_COORDINATOR, "this SPU does not coordinate the group any more")
