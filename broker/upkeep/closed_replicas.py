"""What is known of the replicas that are not open here, and may be given back: one of them, or all at a start."""

from tailrace.protocol.ids import NO_EPOCH
from tailrace.storage.directory.checkpoints import ReplicaKey, SavedHighWatermark

from .parking import Storage

HIGH_WATERMARKS_KEPT_MAX = 10_000
"""One that does not know its own any more begins with where its log starts."""
NOTHING_SAVED = SavedHighWatermark(0, NO_EPOCH)


class ClosedReplicas:
    def __init__(self) -> None:
        self.whole: set[ReplicaKey] = set()
        """Those whose logs were closed cleanly and have not been opened since."""
        self.high_watermarks: dict[ReplicaKey, SavedHighWatermark] = {}
        """How far they are known to be committed."""
        self.has_disk_failed = False
        """Of these, or in a process before this one, not everything could be brought to the disk."""

    def keep(self, key: ReplicaKey, high_watermark: SavedHighWatermark) -> None:
        self.high_watermarks[key] = high_watermark
        if len(self.high_watermarks) > HIGH_WATERMARKS_KEPT_MAX:
            oldest = next(iter(self.high_watermarks))
            del self.high_watermarks[oldest]
            self.whole.discard(oldest)

    def take_whole(self, key: ReplicaKey) -> bool:
        """Whether its log is whole; once it is open, nobody can say so any more."""
        is_whole = key in self.whole
        self.whole.discard(key)
        return is_whole

    def forget(self, removed: Storage) -> None:
        """Whoever is given such a replica again begins with nothing."""
        self.high_watermarks = {key: each for key, each in self.high_watermarks.items() if not removed.holds(key)}
        self.whole = {key for key in self.whole if not removed.holds(key)}
