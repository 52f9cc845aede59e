"""Chooses the follower that a consumer should read from (KIP-392): a live one in the consumer's own rack.

The leader names that follower to a consumer that names its rack, instead of sending records. The consumer then reads
from the follower. It returns when the follower refuses it, and after a while to ask again.
"""

from collections.abc import Mapping

from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.specs import SpuSpec
from tailrace.protocol.ids import SpuId

NO_PREFERENCE = SpuId(-1)


def preferred_replica(replica: Replica, rack: str, offset: int, spus: Mapping[SpuId, SpuSpec]) -> SpuId:
    """Returns the live follower in the rack that has most of the log, or NO_PREFERENCE if the consumer should stay.

    A follower that lacks the offset is never named, because it would send the consumer back at once. In a topic with
    uncommitted reads no follower is named, because only the leader can serve those.
    """
    if not replica.is_leader or replica.settings.reads_uncommitted or offset < replica.log.log_start:
        return NO_PREFERENCE
    spec = replica.spec
    if _rack_of(spec.leader, spus) == rack:
        return NO_PREFERENCE
    best, best_end = NO_PREFERENCE, offset - 1
    for spu in spec.live_replicas:
        if spu != spec.leader and _rack_of(spu, spus) == rack:
            end = replica.follower_matched_end(spu)
            if end is not None and end > best_end:
                best, best_end = spu, end
    return best


def _rack_of(spu: SpuId, spus: Mapping[SpuId, SpuSpec]) -> str | None:
    """Returns the rack of an SPU, or None if the SPU has no rack or is offline."""
    found = spus.get(spu)
    return found.rack if found is not None and found.online else None
