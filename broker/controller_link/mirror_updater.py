"""Keeps this SPU's mirror of the cluster up to date, and lets tasks wait for changes of it.

A request that makes the controller change something gets its response only when the local mirror has the change,
because the client may send its next request to this SPU.
"""

from collections.abc import Callable

import trio
from msgspec.structs import replace

from tailrace.cluster.advertised_addresses import PUBLISHED
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest
from tailrace.security.records.security_records import KINDS, RecordError, decode_record, key_of

from .spec_messages import configs_of, spu_spec, topic_spec, waiting_topic


class MirrorUpdater:
    def __init__(
        self, cluster: Cluster, this: SpuId, on_rack: Callable[[str | None], None] = lambda rack: None
    ) -> None:
        """`on_rack` is called with the rack in this SPU's registration, each time that the controller sends it."""
        self._cluster = cluster
        self._this = this
        self._on_rack = on_rack
        self._reported_places: frozenset[tuple[str, str, int]] = frozenset()
        """The listeners that this SPU has reported for clients, with their hosts and ports."""
        self._version = -1
        self._connections = 0
        """The number of connections so far."""
        self._awaits_all = False
        """Whether the full metadata of this connection is still to come; the version is then from an earlier
        connection."""
        self._changed = trio.Event()
        self._ended = False

    # events

    def on_connected(self, reported: tuple[Endpoint, ...]) -> None:
        """Expects the full metadata next. Its version may be smaller, because the controller may be another process."""
        self._reported_places = frozenset(map(_place, reported))
        self._cluster.machine_hosts = frozenset(each.host for each in reported if each.on_all_addresses)
        self._connections += 1
        self._awaits_all = True

    def apply(self, message: ApplyMetadataRequest) -> None:
        cluster = self._cluster
        if message.is_full:
            self._remove_others(message)
            cluster.put_hidden_topics(message.hidden_topics)
        for spu_id in message.removed_spus:
            cluster.remove_spu(SpuId(spu_id))
        for topic_id in message.removed_topics:
            cluster.remove_topic(topic_id)
        for spu in message.spus:
            cluster.put_spu(self._without_reported(spu_spec(spu)))
            if spu.id == self._this:
                self._on_rack(spu.rack)
        for topic in message.topics:
            cluster.put_topic(topic_spec(topic, cluster.topic_by_id(topic.topic_id)))
        for group in message.groups:
            cluster.put_group_configs(group.group, configs_of(group.configs))
        self._apply_security(message)
        cluster.put_waiting_topics(map(waiting_topic, message.waiting_topics))
        cluster.identify(message.cluster_id, SpuId(message.controller_id))
        cluster.security.login_secret = message.login_secret.encode()
        self._version = message.version
        if message.is_full:
            self._awaits_all = False
        self._wake()

    def on_end(self) -> None:
        """Ends all waiting, because no more metadata will come."""
        self._ended = True
        self._wake()

    # waiting

    async def wait_for_version(self, version: int) -> None:
        """Waits until the mirror has what the controller had at this version, or until no more metadata will come.

        The controller has just named the version. The full metadata of a later connection also has the change, because
        the controller stored the change before it named the version.
        """
        connections = self._connections
        await self.wait_until(
            lambda: not self._awaits_all and (self._version >= version or self._connections != connections)
        )

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Waits until the condition holds, or until no more metadata will come.

        The mirror's changes trigger the check.
        """
        while not holds() and not self._ended:
            await self._changed.wait()

    def _apply_security(self, message: ApplyMetadataRequest) -> None:
        """Puts and removes records. Full metadata name a record without a value if the controller cannot read it.

        Kinds that only a later version knows are ignored.
        """
        named = {(each.kind, each.key) for each in message.security}
        if message.is_full:
            for kind in KINDS:
                for key in [key for key in self._cluster.security.of_kind(kind) if (kind, key) not in named]:
                    self._cluster.remove_security(kind, key)
        for each in message.security:
            if each.kind not in KINDS:
                continue
            if each.value is not None:
                self._put_security(each.kind, each.value)
            elif not message.is_full:
                self._cluster.remove_security(each.kind, each.key)

    def _put_security(self, kind: str, value: bytes) -> None:
        try:
            record = decode_record(kind, value)
        except RecordError as error:
            raise RemoteProtocolError(f"the Streaming Controller sent a record that cannot be read: {error}") from error
        if self._cluster.security.of_kind(kind).get(key_of(record)) != record:
            self._cluster.put_security(record)

    def _without_reported(self, spu: SpuSpec) -> SpuSpec:
        """Returns the SPU without the addresses that it reported itself, if it is this SPU.

        What remains are the published address and those that an administrator set. Without any, a client is told the
        address at which it has reached this SPU, which is right on each of several networks.
        """
        if spu.id != self._this:
            return spu
        kept = [
            each for each in spu.endpoints if each.listener == PUBLISHED or _place(each) not in self._reported_places
        ]
        return replace(spu, endpoints=tuple(kept))

    def _remove_others(self, message: ApplyMetadataRequest) -> None:
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


def _place(endpoint: Endpoint) -> tuple[str, str, int]:
    return endpoint.listener, endpoint.host, endpoint.port
