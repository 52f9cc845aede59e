"""Dispatches what other SPUs and the SC say about replicas to the replicas' controllers, and makes the controllers.

Each replica of a partition with several replicas has its own controller. What happens to an SPU, or to the link to it,
concerns all controllers.
"""

from collections.abc import Callable

import trio

from tailrace.broker.peers.peer_messages import PeerMessage, ReceivedBatches
from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.storage.directory.checkpoints import ReplicaKey

from .replica_controller import ReplicaController
from .role_context import RoleContext

HAND_OVER_SECONDS_MAX = 1.0
"""A follower that does not respond in time learns the rest by recovery."""


class ReplicaInfoDispatcher:
    """The dispatcher of one SPU."""

    def __init__(self, context: RoleContext) -> None:
        self._context = context
        self._controllers: dict[ReplicaKey, ReplicaController] = {}

    # replicas added and removed

    async def attend(self, replica: Replica) -> None:
        """Starts or updates the replication of a replica that is new on this SPU or has another spec."""
        controller = self._controllers.get(replica.key)
        if replica.is_alone:
            if controller is not None:
                await self.leave(replica)
                replica.lead_alone()
            return
        if controller is None:
            controller = self._controllers[replica.key] = ReplicaController(replica, self._context)
            replica.replication = controller
            controller.on_spec()
        await controller.wait_until_started()

    async def leave(self, replica: Replica) -> None:
        """Ends the replication of a replica. When this returns, its log may be used by others."""
        controller = self._controllers.pop(replica.key, None)
        if controller is not None:
            await controller.end()
            replica.replication = None

    def forget(self, topic_id: TopicId, partition: int | None) -> None:
        """Forgets what deleted replicas had promised. A new replica with this key is in doubt until it has caught
        up."""
        self._context.promises.forget(topic_id, partition)

    def is_in_doubt(self, spec: PartitionSpec) -> bool:
        """Returns whether a role that begins with this spec would be in doubt."""
        return self._context.is_in_doubt(spec)

    async def doubt(self, key: ReplicaKey) -> None:
        """Puts the replica in doubt, because something is missing from its log. Raises OSError."""
        await self._context.promises.doubt(key)

    def on_failed(self, key: ReplicaKey) -> None:
        """Tells the SC, in every role, that the disk has failed or the log did not open."""
        self._context.live_replicas.on_failed(key)

    def on_availability_changed(self, key: ReplicaKey) -> None:
        """Tells the SC that a log can be opened now, or cannot any more."""
        self._context.live_replicas.on_changed([key])

    def on_disk_failed(self) -> None:
        """Notes a failed disk of a replica without followers, because the partition may have had other replicas, or may
        get some."""
        self._context.note_failed_disk()

    # from other SPUs

    def on_message(
        self,
        spu: SpuId,
        from_leader: bool,
        key: ReplicaKey,
        message: PeerMessage,
        batches: ReceivedBatches | None,
    ) -> None:
        controller = self._controllers.get(key)
        if self._context.trace is not None:
            self._context.trace.dispatched(key, message, spu)
        if controller is not None:
            controller.on_message(spu, from_leader, message, batches)

    def on_linked(self, spu: SpuId, from_leader: bool) -> None:
        if from_leader:
            self._for_all(lambda each: each.tell_follower_of(spu, lambda follower, now: follower.core.on_linked(now)))

    def on_unlinked(self, spu: SpuId, from_leader: bool) -> None:
        if from_leader:
            self._for_all(lambda each: each.tell_follower_of(spu, lambda follower, _: follower.core.on_link_lost()))
        else:
            self._for_all(lambda each: each.tell_leader(lambda leader, now: leader.core.on_link_lost(spu, now)))

    def on_unreadable(self, key: ReplicaKey, reason: str) -> None:
        self._context.on_unreadable(key, reason)

    def end_turn(self) -> None:
        self._context.end_turn()

    # from the Streaming Controller

    def on_offline(self, spu: SpuId) -> None:
        self._for_all(lambda each: each.tell_leader(lambda leader, now: leader.core.on_offline(spu, now), "SpuOffline"))

    def on_online(self, spu: SpuId) -> None:
        self._for_all(lambda each: each.tell_leader(lambda leader, _: leader.core.on_online(spu), "SpuOnline"))

    def _for_all(self, tell: Callable[[ReplicaController], None]) -> None:
        for controller in list(self._controllers.values()):
            tell(controller)
        self._context.peers.flush()

    # clean stop

    async def hand_over(self) -> None:
        """Stops appending and waits until the followers know that everything is committed, so that the next leaders
        have nothing to recover."""
        leaders = [leader for each in self._controllers.values() if (leader := each.stop_leading()) is not None]
        self._context.peers.flush()
        with trio.move_on_after(HAND_OVER_SECONDS_MAX):
            for leader in leaders:
                await leader.settled()
