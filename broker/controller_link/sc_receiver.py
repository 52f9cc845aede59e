"""Handles the requests of the Streaming Controller to this SPU, and sends it reports."""

from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Any

import trio

from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.roles.replica_info_dispatcher import ReplicaInfoDispatcher
from tailrace.broker.upkeep.storage_limit import StorageLimit
from tailrace.cluster.client_view import online_spus
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import NO_LEADER, Endpoint, PartitionSpec
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest, ApplyMetadataResponse
from tailrace.protocol.internal.apply_specs import ApplySpecsRequest, ApplySpecsResponse
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest
from tailrace.protocol.internal_apis import InternalApiKey

from .live_replica_reporter import LiveReplicaReporter
from .mirror_updater import MirrorUpdater
from .sc_connection import Ask
from .spec_dispatcher import SpecDispatcher
from .spec_messages import held_specs

ELECTIONS_SECONDS_MAX = 5.0
"""How long the start waits for elections."""
UNLIMITED = -1
"""Stands for a missing storage limit in the heartbeat."""


AppendAudit = Callable[[str, bytes, Sequence[bytes]], Awaitable[None]]
"""Appends lines of the audit log of the Streaming Controller to a topic, with one key. Raises OSError."""


class ScReceiver:
    def __init__(
        self,
        spu: SpuId,
        dispatcher: SpecDispatcher,
        mirror: MirrorUpdater,
        live_replicas: LiveReplicaReporter,
        replication: ReplicaInfoDispatcher,
        replicas: ReplicaRegistry,
        cluster: Cluster,
        storage_limit: StorageLimit,
        append_audit: AppendAudit,
    ) -> None:
        self._spu = spu
        self._dispatcher = dispatcher
        self._mirror = mirror
        self._live_replicas = live_replicas
        self._replication = replication
        self._replicas = replicas
        self._cluster = cluster
        self._storage_limit = storage_limit
        self._append_audit = append_audit
        self._has_specs = trio.Event()

    def on_connecting(self, reported: tuple[Endpoint, ...]) -> None:
        self._mirror.on_connected(reported)

    async def handle(self, api_key: IntEnum, message: Any) -> object:
        # Modules for rare requests are imported when they are needed.
        match api_key:
            case InternalApiKey.APPLY_SPECS:
                return await self._apply_specs(message)
            case InternalApiKey.APPLY_METADATA:
                self._apply_metadata(message)
                return ApplyMetadataResponse()
            case InternalApiKey.DESCRIBE_REPLICAS:
                from tailrace.broker.descriptions.local_replicas import describe_replicas

                return describe_replicas(self._replicas, message)
            case InternalApiKey.DESCRIBE_REPLICA_SEGMENTS:
                from tailrace.broker.descriptions.local_segments import describe_segments

                return await describe_segments(self._replicas, message)
            case InternalApiKey.APPEND_AUDIT:
                from tailrace.protocol.internal.append_audit import AppendAuditResponse

                try:
                    await self._append_audit(message.topic, message.key, message.lines)
                except OSError as error:
                    return AppendAuditResponse(str(error) or type(error).__name__)
                return AppendAuditResponse()
        raise AssertionError(f"{api_key!r} is not in the table of requests to an SPU")

    def _apply_metadata(self, message: ApplyMetadataRequest) -> None:
        before = online_spus(self._cluster)
        self._mirror.apply(message)
        after = online_spus(self._cluster)
        for spu in before - after:
            self._cluster.lost_at[spu] = trio.current_time()
            self._replication.on_offline(spu)
        for spu in after - before:
            self._replication.on_online(spu)

    async def report(self, ask: Ask) -> None:
        await self._live_replicas.run(ask)

    def heartbeat(self) -> RenewLeaseRequest:
        size_bytes = self._storage_limit.size_bytes
        return RenewLeaseRequest(self._storage_limit.used_bytes, UNLIMITED if size_bytes is None else size_bytes)

    def on_end(self) -> None:
        self._mirror.on_end()

    async def wait_until_ready(self, spu: SpuId) -> None:
        """Waits until the replicas run, this SPU is online, and the partitions that it may lead have a leader.

        The wait for leaders is short, so that the other partitions can be served.
        """
        await self._has_specs.wait()
        await self._mirror.wait_until(lambda: spu in self._cluster.spus and self._cluster.spus[spu].online)
        with trio.move_on_after(ELECTIONS_SECONDS_MAX):
            await self._mirror.wait_until(lambda: self._are_partitions_led(spu))

    def _are_partitions_led(self, spu: SpuId) -> bool:
        """Returns whether all partitions that this SPU may lead have a leader."""
        return all(self._is_led(replica.spec) for replica in self._replicas if spu in replica.spec.live_replicas)

    def _is_led(self, spec: PartitionSpec) -> bool:
        """Returns whether the partition has a leader, also in the mirror, from which clients learn it."""
        mirrored = self._cluster.partition(spec.topic_id, spec.partition)
        if mirrored is None:
            return True  # clients do not see a topic that is not complete yet
        return NO_LEADER not in (spec.leader, mirrored.leader) and mirrored.epoch >= spec.epoch

    async def _apply_specs(self, message: ApplySpecsRequest) -> ApplySpecsResponse:
        response = ApplySpecsResponse()
        specs = held_specs(message, self._spu)
        try:
            await self._dispatcher.apply(specs)
        except KafkaError as error:
            response = ApplySpecsResponse(error.code, error.message)
        self._storage_limit.use_size(specs.size_bytes)
        self._live_replicas.on_changed(None if specs.is_full else (*specs.named(), *specs.removed))
        self._has_specs.set()
        return response
