"""Keeps this SPU's mirror of the cluster as the Streaming Controller has it, and says when it has come far enough.

Whoever had the controller change something answers its client only when this SPU's own mirror has the change, for the
client's next request may come here.
"""

from collections.abc import Callable

import trio
from msgspec.structs import replace

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest

from .spec_messages import configs_of, spu_spec, topic_spec


class MirrorUpdater:
    def __init__(
        self, cluster: Cluster, this: SpuId, on_rack: Callable[[str | None], None] = lambda rack: None
    ) -> None:
        """Calls `on_rack` with the rack in this SPU's registration, each time that the controller sends it."""
        self._cluster = cluster
        self._this = this
        self._on_rack = on_rack
        self._reported: tuple[Endpoint, ...] = ()
        """Where this SPU says that clients find it."""
        self._version = -1
        self._connections = 0
        """So many there have been."""
        self._awaits_all = False
        """On this one; the version is that of the one before."""
        self._changed = trio.Event()
        self._ended = False

    # what happened

    def on_connected(self, reported: tuple[Endpoint, ...]) -> None:
        """What comes next is everything; its version may be smaller, for the controller may be another process."""
        self._reported = reported
        self._connections += 1
        self._awaits_all = True

    def apply(self, message: ApplyMetadataRequest) -> None:
        cluster = self._cluster
        if message.is_full:
            self._forget_what_is_not_in(message)
        for spu_id in message.removed_spus:
            cluster.remove_spu(SpuId(spu_id))
        for topic_id in message.removed_topics:
            cluster.remove_topic(topic_id)
        for spu in message.spus:
            cluster.put_spu(self._as_told(spu_spec(spu)))
            if spu.id == self._this:
                self._on_rack(spu.rack)
        for topic in message.topics:
            cluster.put_topic(topic_spec(topic, cluster.topic_by_id(topic.topic_id)))
        for group in message.groups:
            cluster.put_group_configs(group.group, configs_of(group.configs))
        cluster.identify(message.cluster_id, SpuId(message.controller_id))
        self._version = message.version
        if message.is_full:
            self._awaits_all = False
        self._wake()

    def on_end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._wake()

    # what to wait for

    async def reached(self, version: int) -> None:
        """Until the mirror holds what the controller had at this version, which it has said just now, or nothing more
        will come.

        Everything that comes with another connection holds it too: the controller had stored it before it said so.
        """
        connections = self._connections
        await self.until(
            lambda: not self._awaits_all and (self._version >= version or self._connections != connections)
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Until that is true of the mirror, or nothing more will come."""
        while not holds() and not self._ended:
            await self._changed.wait()

    def _as_told(self, spu: SpuSpec) -> SpuSpec:
        """Of this SPU only the addresses that a person gave it: else a client finds it where it has reached it, which
        is right on each of several networks."""
        if spu.id != self._this:
            return spu
        return replace(spu, endpoints=tuple(each for each in spu.endpoints if each not in self._reported))

    def _forget_what_is_not_in(self, message: ApplyMetadataRequest) -> None:
        spus = {spu.id for spu in message.spus}
        for spu_id in [each for each in self._cluster.spus if each not in spus]:
            self._cluster.remove_spu(spu_id)
        topics = {topic.topic_id for topic in message.topics}.union(message.hidden_topics)
        for topic_id in [topic.id for topic in self._cluster.topics.values() if topic.id not in topics]:
            self._cluster.remove_topic(topic_id)
        groups = {group.group for group in message.groups}
        for group_id in [each for each in self._cluster.group_configs if each not in groups]:
            self._cluster.put_group_configs(group_id, {})

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
