"""Which follower a consumer had better read from (KIP-392): a live one in the consumer's own rack.

The leader tells a consumer that names its rack, instead of sending it records; the consumer goes there, and comes back
when the follower refuses it, or after a while to ask again.
"""

from collections.abc import Mapping

from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.specs import SpuSpec
from tailrace.protocol.ids import SpuId

NO_PREFERENCE = SpuId(-1)


def preferred_replica(replica: Replica, rack: str, offset: int, spus: Mapping[SpuId, SpuSpec]) -> SpuId:
    """The live follower in the rack that has most of the log, the offset at least; NO_PREFERENCE: read here.

    One that lags behind is never told, for it would send the consumer back at once. Nor is anybody told where the topic
    lets consumers read what is not committed yet: that is on the leader alone.
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
    """None also for one that is away."""
    found = spus.get(spu)
    return found.rack if found is not None and found.online else None
