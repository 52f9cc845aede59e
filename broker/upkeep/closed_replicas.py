"""What this SPU knows about its replicas that are not open, and may have to open again."""

from tailrace.protocol.ids import NO_EPOCH
from tailrace.storage.directory.checkpoints import ReplicaKey, SavedHighWatermark

from .parking import Storage

HIGH_WATERMARKS_KEPT_MAX = 10_000
"""How many high watermarks are kept. A replica whose high watermark was dropped begins with its log start."""
NOTHING_SAVED = SavedHighWatermark(0, NO_EPOCH)


class ClosedReplicas:
    """Facts about replicas that are not open."""

    def __init__(self) -> None:
        self.clean: set[ReplicaKey] = set()
        """The replicas whose logs were closed cleanly and have not been opened since."""
        self.high_watermarks: dict[ReplicaKey, SavedHighWatermark] = {}
        """The high watermarks of closed replicas."""
        self.has_disk_failed = False
        """Whether a sync of a closed replica has failed, or one in an earlier process."""

    def keep(self, key: ReplicaKey, high_watermark: SavedHighWatermark) -> None:
        """Keeps the high watermark of a replica that closes, and drops the oldest one if there are too many."""
        self.high_watermarks[key] = high_watermark
        if len(self.high_watermarks) > HIGH_WATERMARKS_KEPT_MAX:
            oldest = next(iter(self.high_watermarks))
            del self.high_watermarks[oldest]
            self.clean.discard(oldest)

    def take_clean(self, key: ReplicaKey) -> bool:
        """Whether the log of a replica is clean. The fact is used up, because the log is about to be opened."""
        is_clean = key in self.clean
        self.clean.discard(key)
        return is_clean

    def forget(self, removed: Storage) -> None:
        """Forgets replicas whose storage is removed. If one is assigned again, it begins with nothing."""
        self.high_watermarks = {key: each for key, each in self.high_watermarks.items() if not removed.holds(key)}
        self.clean = {key for key in self.clean if not removed.holds(key)}
