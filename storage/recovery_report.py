"""What opening a log found and did about it; the broker logs it and counts it."""

from dataclasses import dataclass, field


class LogDamagedError(OSError):
    """Records that were safely on the disk are not what they were. Nothing is cut: the replica stays offline."""


@dataclass(slots=True)
class RecoveryReport:
    was_clean: bool = False
    """The log was closed properly and nothing had to be scanned."""
    scanned_bytes: int = 0
    cut_bytes: int = 0
    indexes_rebuilt: int = 0
    """Goes on counting while the log is open: an index is looked at when it is first used."""
    events: list[str] = field(default_factory=list)
    """Sentences: what was cut, dropped or finished, and why."""
