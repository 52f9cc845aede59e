"""A scripted SPU at the SC's private port, which records what it receives."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import structlog
import trio

from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest, ApplyMetadataResponse
from tailrace.protocol.internal.apply_specs import ApplySpecsRequest, ApplySpecsResponse
from tailrace.protocol.internal.describe_replicas import (
    DescribedReplica,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from tailrace.protocol.internal.leave import LeaveRequest
from tailrace.protocol.internal.register_spu import RegisteredListener, RegisterSpuRequest, RegisterSpuResponse
from tailrace.protocol.internal.renew_lease import RenewLeaseRequest
from tailrace.protocol.internal.report_live_replicas import (
    ReportedPartition,
    ReportLiveReplicasRequest,
    ReportLiveReplicasResponse,
)
from tailrace.protocol.internal_apis import SC_PRIVATE_APIS, SPU_PRIVATE_APIS, InternalApiKey
from tailrace.runtime.network import Address, Network
from tailrace.server.private_link import LinkClosed, PrivateLink

LISTENERS = (RegisteredListener("PUBLIC", "spu.example", 9005),)


class ScriptedSpu:
    def __init__(self, spu: int = 1, incarnation: str = "first", listeners: Sequence[RegisteredListener] = LISTENERS):
        self.id = spu
        self.incarnation = incarnation
        self.listeners = list(listeners)
        self.heard: list[Any] = []
        """The requests of the SC, in order."""
        self.may_answer = trio.Event()
        self.may_answer.set()
        self.link: PrivateLink

    async def connect(self, network: Network, address: Address, nursery: trio.Nursery) -> None:
        self.connection = await network.connect(address)
        self.link = PrivateLink(
            self.connection,
            serves=SPU_PRIVATE_APIS,
            asks=SC_PRIVATE_APIS,
            handle=self._handle,
            concurrent=frozenset({InternalApiKey.DESCRIBE_REPLICAS}),
            logger=structlog.get_logger(),
        )
        nursery.start_soon(self.link.run)

    async def register(self, **fields: Any) -> RegisterSpuResponse:
        request = RegisterSpuRequest(
            spu_id=self.id,
            incarnation=self.incarnation,
            store_incarnation="store",
            stopped_cleanly=True,
            software_version="1.2.3",
            listeners=self.listeners,
            private_host="spu.private.example",
            private_port=9006,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        response: RegisterSpuResponse = await self.link.ask(request)
        return response

    async def renew(self, used_bytes: int = -1, size_bytes: int = -1) -> int:
        """The error code."""
        code: int = (await self.link.ask(RenewLeaseRequest(used_bytes, size_bytes))).error_code
        return code

    async def stay(self, seconds: float = 0.5) -> None:
        """Renews its lease until the connection ends."""
        try:
            while True:
                await self.renew()
                await trio.sleep(seconds)
        except LinkClosed:
            return

    async def leave(self) -> None:
        await self.link.ask(LeaveRequest())

    async def report(self, *partitions: ReportedPartition) -> int:
        """The error code."""
        response: ReportLiveReplicasResponse = await self.link.ask(ReportLiveReplicasRequest(list(partitions)))
        return response.error_code

    async def _handle(self, _: IntEnum, message: Any) -> object:
        self.heard.append(message)
        await self.may_answer.wait()
        match message:
            case ApplySpecsRequest():
                return ApplySpecsResponse()
            case ApplyMetadataRequest():
                return ApplyMetadataResponse()
            case DescribeReplicasRequest():
                return DescribeReplicasResponse([DescribedReplica(size_bytes=self.id)])
        raise NotImplementedError(message)

    @property
    def specs(self) -> list[ApplySpecsRequest]:
        return [message for message in self.heard if isinstance(message, ApplySpecsRequest)]

    @property
    def metadata(self) -> list[ApplyMetadataRequest]:
        return [message for message in self.heard if isinstance(message, ApplyMetadataRequest)]
