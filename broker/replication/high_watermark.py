"""The high watermark of one replica: up to where all is committed. It never falls."""


class HighWatermark:
    """One for a replica's life in this process: leaders and followers come and go, and share it."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value
        """Exclusive. Below it, this replica's log is the committed one."""

    def advance(self, end: int) -> bool:
        """Whether it rose."""
        if end <= self.value:
            return False
        self.value = end
        return True
