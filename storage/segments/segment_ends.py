"""Infers why a segment was sealed, since that is not recorded when it happens."""

from enum import StrEnum

from tailrace.storage.indexes.offset_index import ENTRY_BYTES
from tailrace.storage.indexes.time_index import NO_TIMESTAMP
from tailrace.storage.log_config import LogConfig
from tailrace.storage.manifest.leader_epochs import LeaderEpochs
from tailrace.storage.manifest.manifest import SegmentFacts


class SealedBy(StrEnum):
    """The reason why a segment ended."""

    BRIDGE = "bridge"
    """A new leader recovered the segment and ended it with a bridge."""
    EPOCH = "new epoch"
    """An epoch began whose leader had nothing to recover."""
    AGED = "aged"
    FULL = "full"


def sealed_by(
    segment: SegmentFacts, following: SegmentFacts | None, epochs: LeaderEpochs, config: LogConfig, *, has_bridge: bool
) -> SealedBy | None:
    """Infers the reason from the segment after it; None if the segment has not ended or nothing indicates the reason.

    This uses the current settings, which may differ from those of the time.
    """
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
    # The following segment does not show how large its first batch was, for which this segment had no room.
    if (
        segment.size + following.size > config.segment_bytes_max
        or segment.index_entries * ENTRY_BYTES >= config.index_bytes_max
    ):
        return SealedBy.FULL
    return None


def may_have_bridge(segment: SegmentFacts, epochs: LeaderEpochs) -> bool:
    """Returns whether an epoch begins with the segment's last offset.

    The batch at that offset tells whether it is a bridge.
    """
    return bool(epochs.between(segment.end - 1, segment.end)) and segment.end > segment.base
