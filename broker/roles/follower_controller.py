"""Follows one leader in one epoch: carries messages between the core's `Follower` and its leader.

All replicas that follow the same SPU share the connection to it. It is dialled for the first one and closed after the
last one.
"""

from crc32c import crc32c

from tailrace.broker.peers.peer_messages import FetchedEntries, FetchEntries, PeerMessage
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_log import ReplicaLog
from tailrace.broker.replication.follower import Follower
from tailrace.broker.replication.high_watermark import HighWatermark
from tailrace.broker.replication.messages import Append, Message, Seal
from tailrace.broker.replication.ready import Ready
from tailrace.broker.replication.sealing import Promise
from tailrace.protocol.ids import FIRST_EPOCH, Epoch, SpuId
from tailrace.runtime.logs import FilteringBoundLogger

from .role_context import RoleContext


class FollowerController:
    """The shell of a follower role."""

    def __init__(
        self,
        replica: Replica,
        entries: ReplicaLog,
        promise: Promise,
        high_watermark: HighWatermark,
        context: RoleContext,
        logger: FilteringBoundLogger,
        *,
        in_doubt: bool,
        now: float,
    ) -> None:
        spec = replica.spec
        self._replica = replica
        self._context = context
        self._logger = logger.bind(epoch=spec.epoch, leader=spec.leader)
        self._high_watermark = high_watermark
        self.core = Follower(
            context.spu,
            context.store_incarnation,
            spec.leader,
            spec.epoch,
            log=entries,
            promise=promise,
            high_watermark=high_watermark,
            in_doubt=in_doubt,
            policy=replica.replication_policy,
            syncs_before_acknowledging=replica.syncs_before_acknowledging,
            has_failed=replica.offline_reason is not None,
            copy_limits=context.copies.limits(replica),
            turn=context.spu + crc32c(replica.spec.topic_id.bytes) + replica.partition,
        )
        if spec.epoch == FIRST_EPOCH:  # thousands may begin at once
            self._logger.debug("following_began", log_end=entries.log_end, high_watermark=replica.high_watermark)
        else:
            self._logger.info("following_began", log_end=entries.log_end, high_watermark=replica.high_watermark)

    @property
    def epoch(self) -> Epoch:
        return self.core.epoch

    @property
    def leader(self) -> SpuId:
        return self.core.leader

    @property
    def reaches_peers(self) -> bool:
        return self._context.peers.is_linked(self.leader, from_leader=True)

    # life cycle

    def begin(self, now: float) -> None:
        peers = self._context.peers
        peers.follow(self.leader)
        if peers.is_linked(self.leader, from_leader=True):
            self.core.on_linked(now)

    def end(self) -> None:
        self.core.stop_copying("this replica does not follow this leader any more")
        self._tell_of_copies(self.core.take_ready())
        self._context.peers.forget(self._replica.key)
        self._context.peers.unfollow(self.leader)

    # events

    def on_spec(self) -> None:
        replica = self._replica
        self.core.use_policy(replica.replication_policy, replica.spec.epoch, self._context.copies.limits(replica))

    def on_settings(self, now: float) -> None:
        self.core.syncs_before_acknowledging = self._replica.syncs_before_acknowledging
        if self._replica.spec.epoch == self.epoch:
            self.on_spec()

    def on_message(self, spu: SpuId, from_leader: bool, message: PeerMessage, now: float) -> None:
        core = self.core
        if not from_leader or spu != core.leader:
            return  # an earlier leader, or an SPU that takes this one for the leader
        match message:
            case Append():
                core.on_append(message)
            case Seal():
                core.on_seal(message)
            case FetchEntries():
                self._hand_over(message)
            case _:
                pass  # fenced: the spec that explains it is on its way

    # effects of the core

    def send(self, to: SpuId, message: Message) -> None:
        self._context.peers.send_to_leader(to, self._replica.key, message)

    def finish(self, ready: Ready) -> bool:
        self._tell_of_copies(ready)
        if not self.core.has_failed:  # otherwise the high watermark belongs to a log that will never exist
            self._replica.on_committed(self._high_watermark.value, self._high_watermark.epoch)
        return True

    def _tell_of_copies(self, ready: Ready) -> None:
        if ready.copy_request is not None and ready.copy_request.is_first:
            self._logger.info("copy_began", offset=ready.copy_request.offset, copied_from=ready.copy_request.source)
        if ready.copy_end is not None:
            over = ready.copy_end
            self._logger.info(
                "copy_ended",
                offset=over.offset,
                records=over.records,
                bytes=over.size_bytes,
                copied_from=list(over.sources),
                reason=over.reason,
            )

    def _hand_over(self, asked: FetchEntries) -> None:
        """Sends the leader batches that its recovery needs and that this store has described."""
        log = self._replica.log
        if asked.epoch != self.epoch or self.core.has_failed:
            return
        self._context.peers.send_to_leader(
            self.leader,
            self._replica.key,
            FetchedEntries(asked.epoch, asked.start),
            lambda: log.read_batches(asked.start, asked.end),
        )
