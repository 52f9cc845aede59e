"""Why a segment ended, as far as those that follow it tell: nobody writes it down when it happens."""

from enum import StrEnum

from tailrace.storage.indexes.offset_index import ENTRY_BYTES
from tailrace.storage.indexes.time_index import NO_TIMESTAMP
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.leader_epochs import LeaderEpochs
from tailrace.storage.manifest.manifest import SegmentFacts


class SealedBy(StrEnum):
    BRIDGE = "bridge"
    """A new leader recovered it and wrote where it ends."""
    EPOCH = "new epoch"
    """The next leader had nothing to recover."""
    AGED = "aged"
    FULL = "full"


def sealed_by(
    segment: SegmentFacts, following: SegmentFacts | None, epochs: LeaderEpochs, config: LogConfig, *, has_bridge: bool
) -> SealedBy | None:
    """None: nothing tells, or it has not ended. By the settings of today, which may not be those of then."""
    if has_bridge:
        return SealedBy.BRIDGE
    if following is None:
        return None
    if any(start.start == segment.end for start in epochs):
        return SealedBy.EPOCH
    if (
        NO_TIMESTAMP not in (segment.first_timestamp, following.first_timestamp)
        and following.first_timestamp - segment.first_timestamp > config.segment_age_ms_max
    ):
        return SealedBy.AGED
    # How much of the next one is its first batch, which this one had no room for, it does not say.
    if (
        segment.size + following.size > config.segment_bytes_max
        or segment.index_entries * ENTRY_BYTES >= config.index_bytes_max
    ):
        return SealedBy.FULL
    return None


def may_have_bridge(segment: SegmentFacts, epochs: LeaderEpochs) -> bool:
    """Whether its last offset is one with which an epoch begins; the batch there says if it is a bridge."""
    return bool(epochs.between(segment.end - 1, segment.end)) and segment.end > segment.base
