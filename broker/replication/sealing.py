"""Replica sealing: what a store promises to a leader, and how many promises a leader has.

Leases only prevent that two lead at once; that it does no harm rests on this alone. Once enough stores have promised an
epoch, nothing of an earlier one can be committed any more.
"""

from msgspec import Struct, field

from tailrace.protocol.ids import Epoch, SpuId

from .messages import SealReply
from .policy import ReplicationPolicy


class Promise(Struct):
    """Of one store: the largest epoch it has answered to. Whatever comes with a smaller one is refused."""

    epoch: Epoch

    def refuses(self, epoch: Epoch) -> bool:
        return epoch < self.epoch

    def renew(self, epoch: Epoch) -> bool:
        """Whether this is news, which must be on the disk before anybody hears of it."""
        assert epoch >= self.epoch
        is_news = epoch > self.epoch
        self.epoch = epoch
        return is_news


class Sealing(Struct):
    """The answers that a leader has got, its own store's among them."""

    policy: ReplicationPolicy
    sure: set[SpuId] = field(default_factory=set)
    in_doubt: set[SpuId] = field(default_factory=set)
    replies: dict[SpuId, SealReply] = field(default_factory=dict)

    def add(self, reply: SealReply) -> None:
        """The newest of a store counts: it may have restarted since, and be in doubt now."""
        self.forget(reply.spu)
        (self.in_doubt if reply.in_doubt else self.sure).add(reply.spu)
        self.replies[reply.spu] = reply

    def forget(self, spu: SpuId) -> None:
        self.sure.discard(spu)
        self.in_doubt.discard(spu)
        self.replies.pop(spu, None)

    @property
    def is_complete(self) -> bool:
        return self.policy.is_sealed(self.sure, self.in_doubt)
