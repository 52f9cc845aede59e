"""Sealing: what a store promises to a leader, and whether a leader has enough promises.

Leases only make two simultaneous leaders rare. Promises alone make them harmless: once enough stores have promised an
epoch, nothing of an earlier epoch can be committed any more.
"""

from msgspec import Struct, field

from tailrace.protocol.ids import Epoch, SpuId

from .messages import SealReply
from .policy import ReplicationPolicy


class Promise(Struct):
    """The largest epoch to which one store has responded. The store refuses every smaller epoch."""

    epoch: Epoch

    def refuses(self, epoch: Epoch) -> bool:
        """Returns whether a message of this epoch is fenced."""
        return epoch < self.epoch

    def renew(self, epoch: Epoch) -> bool:
        """Raises the promise; returns whether it changed, and so must be made durable before the store responds."""
        assert epoch >= self.epoch
        is_news = epoch > self.epoch
        self.epoch = epoch
        return is_news


class Sealing(Struct):
    """The replies to a leader's Seal, including the leader's own."""

    policy: ReplicationPolicy
    sure: set[SpuId] = field(default_factory=set)
    in_doubt: set[SpuId] = field(default_factory=set)
    replies: dict[SpuId, SealReply] = field(default_factory=dict)

    def add(self, reply: SealReply) -> None:
        """Counts a reply instead of the store's earlier one: the store may have restarted since, and be in doubt
        now."""
        self.forget(reply.spu)
        (self.in_doubt if reply.in_doubt else self.sure).add(reply.spu)
        self.replies[reply.spu] = reply

    def forget(self, spu: SpuId) -> None:
        """Stops counting a store's reply."""
        self.sure.discard(spu)
        self.in_doubt.discard(spu)
        self.replies.pop(spu, None)

    @property
    def is_complete(self) -> bool:
        """Whether enough stores have promised the epoch."""
        return self.policy.is_sealed(self.sure, self.in_doubt)
