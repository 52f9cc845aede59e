"""What classic groups are asked: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups."""

from typing import TYPE_CHECKING, Any

from .moment import Moment
from .records import GroupRecord

if TYPE_CHECKING:
    from .coordinator import Coordinator


class ClassicRequests:
    KEYS: tuple[type[Any], ...] = ()
    """Of the records that are kept here."""

    def __init__(self, coordinator: "Coordinator") -> None:
        self._coordinator = coordinator

    def replay(self, record: GroupRecord) -> None: ...

    def on_loaded(self, moment: Moment) -> None: ...
