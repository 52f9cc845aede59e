"""Brings what other SPUs say of replicas to the controllers of those that are here, and makes these controllers.

Each replica of a partition that has several has a controller of its own; what happens to a whole SPU, or to the link to
it, concerns all that it has in common with this one.
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
"""A follower that does not answer learns by recovery what it was not told."""


class ReplicaInfoDispatcher:
    def __init__(self, context: RoleContext) -> None:
        self._context = context
        self._controllers: dict[ReplicaKey, ReplicaController] = {}

    # replicas that come and go

    async def attend(self, replica: Replica) -> None:
        """A replica is new here, or has another spec: it takes its part."""
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
        """Its log is in nobody's hands when this returns."""
        controller = self._controllers.pop(replica.key, None)
        if controller is not None:
            await controller.end()
            replica.replication = None

    def forget(self, topic_id: TopicId, partition: int | None) -> None:
        """The storage of these is gone: with it goes what it promised, and a new one is in doubt like any other."""
        self._context.promises.forget(topic_id, partition)

    def is_in_doubt(self, spec: PartitionSpec) -> bool:
        """As the role will have it that begins with this spec."""
        return self._context.is_in_doubt(spec)

    async def doubt(self, key: ReplicaKey) -> None:
        """Something has gone from its log. Raises OSError."""
        await self._context.promises.doubt(key)

    def on_failed(self, key: ReplicaKey) -> None:
        """Its disk has failed, or its log did not open: the Streaming Controller is to know, whoever leads."""
        self._context.live_replicas.give_up(key)

    def on_availability_changed(self, key: ReplicaKey) -> None:
        """One that did not open before, or the other way round: the Streaming Controller is to know that as well."""
        self._context.live_replicas.on_changed([key])

    def on_disk_failed(self) -> None:
        """Under a replica that has the partition to itself. It may have others one day, or have had some."""
        self._context.note_failed_disk()

    # what other SPUs say

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

    # what the Streaming Controller says

    def on_offline(self, spu: SpuId) -> None:
        self._for_all(lambda each: each.tell_leader(lambda leader, now: leader.core.on_offline(spu, now), "SpuOffline"))

    def on_online(self, spu: SpuId) -> None:
        self._for_all(lambda each: each.tell_leader(lambda leader, _: leader.core.on_online(spu), "SpuOnline"))

    def _for_all(self, tell: Callable[[ReplicaController], None]) -> None:
        for controller in list(self._controllers.values()):
            tell(controller)
        self._context.peers.flush()

    # a clean stop

    async def hand_over(self) -> None:
        """Nothing more is appended here, and the followers learn that all is committed: whoever leads next has nothing
        to recover."""
        leaders = [leader for each in self._controllers.values() if (leader := each.stop_leading()) is not None]
        self._context.peers.flush()
        with trio.move_on_after(HAND_OVER_SECONDS_MAX):
            for leader in leaders:
                await leader.settled()
