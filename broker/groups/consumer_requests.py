"""What groups of KIP-848 are asked: ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

from typing import TYPE_CHECKING, Any

from .moment import Moment
from .records import GroupRecord

if TYPE_CHECKING:
    from .coordinator import Coordinator


class ConsumerRequests:
    KEYS: tuple[type[Any], ...] = ()
    """Of the records that are kept here."""

    def __init__(self, coordinator: "Coordinator") -> None:
        self._coordinator = coordinator

    def replay(self, record: GroupRecord) -> None: ...

    def on_loaded(self, moment: Moment) -> None: ...
