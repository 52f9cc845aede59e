"""Carries out what the Streaming Controller asks of this SPU, and tells it what it should know."""

from enum import IntEnum
from typing import Any

import trio

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest, ApplyMetadataResponse
from tailrace.protocol.internal.apply_specs import ApplySpecsRequest, ApplySpecsResponse
from tailrace.protocol.internal.describe_replicas import DescribeReplicasRequest

from .live_replicas_updater import LiveReplicasUpdater
from .mirror_updater import MirrorUpdater
from .replica_descriptions import describe_replicas
from .replicas import Replicas
from .sc_connection import Ask
from .spec_dispatcher import SpecDispatcher
from .spec_messages import held_specs


class ScReceiver:
    def __init__(
        self,
        dispatcher: SpecDispatcher,
        mirror: MirrorUpdater,
        live_replicas: LiveReplicasUpdater,
        replicas: Replicas,
    ) -> None:
        self._dispatcher = dispatcher
        self._mirror = mirror
        self._live_replicas = live_replicas
        self._replicas = replicas
        self._has_specs = trio.Event()

    def on_connecting(self) -> None:
        self._mirror.on_connected()

    async def handle(self, api_key: IntEnum, message: Any) -> object:
        match message:
            case ApplySpecsRequest():
                return await self._apply_specs(message)
            case ApplyMetadataRequest():
                self._mirror.apply(message)
                return ApplyMetadataResponse()
            case DescribeReplicasRequest():
                return describe_replicas(self._replicas, message)
        raise AssertionError(f"{api_key!r} is not in the table of what an SPU is asked")

    async def report(self, ask: Ask) -> None:
        await self._live_replicas.run(ask)

    def on_end(self) -> None:
        self._mirror.on_end()

    async def ready(self, spu: SpuId) -> None:
        """Until what belongs here runs, and the Streaming Controller counts this SPU as online."""
        await self._has_specs.wait()
        await self._mirror.online(spu)

    async def _apply_specs(self, message: ApplySpecsRequest) -> ApplySpecsResponse:
        answer = ApplySpecsResponse()
        try:
            await self._dispatcher.apply(held_specs(message))
        except KafkaError as error:
            answer = ApplySpecsResponse(error.code, error.message)
        self._live_replicas.on_changed()
        self._has_specs.set()
        return answer
