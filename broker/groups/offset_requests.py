"""What is asked of offsets: OffsetCommit, OffsetFetch, OffsetDelete; and when they expire."""

from typing import TYPE_CHECKING, Any

from .moment import Moment
from .records import GroupRecord

if TYPE_CHECKING:
    from .coordinator import Coordinator


class OffsetRequests:
    KEYS: tuple[type[Any], ...] = ()
    """Of the records that are kept here."""

    def __init__(self, coordinator: "Coordinator") -> None:
        self._coordinator = coordinator

    def replay(self, record: GroupRecord) -> None: ...

    def on_loaded(self, moment: Moment) -> None: ...

    def forget_group(self, group_id: str) -> None:
        """Appends the records that make all its offsets gone."""
