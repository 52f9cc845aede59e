"""The SC's public port on a network in memory, with a complete workflow, and the command line."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
import trio
from msgspec import Struct, field
from running_workflow import RunningWorkflow, running_workflow
from simulation.files import SimulatedFiles
from simulation.network import MemoryNetwork
from structlog.testing import capture_logs

from tailrace.cli.main import parse
from tailrace.cli.objects import apply_command as apply
from tailrace.cli.objects import connection_commands as connection
from tailrace.cli.objects import controller_commands as controller
from tailrace.cli.objects import partition_commands as partition
from tailrace.cli.objects import replica_commands as replica
from tailrace.cli.objects import segment_commands as segment
from tailrace.cli.objects import spu_commands as spu
from tailrace.cli.objects import spu_group_commands as spu_group
from tailrace.cli.objects import topic_commands as topic
from tailrace.cli.pictures import draw_commands as draw
from tailrace.cli.triggers import deploy_command, export_command, logs_command, state_command, trigger_commands
from tailrace.controller.public_host import KNOWN, PublicHost
from tailrace.controller.workflow.replica_provisioning import ReplicaProvisioner
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.describe_replicas import (
    DescribedReplica,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    EpochStart,
)
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings
from tailrace.server.public_server import PublicServer
from tailrace.server.server_metrics import ServerMetrics

ADDRESS = Address("127.0.0.1", 9003)
_GROUPS = {
    "spu": spu,
    "spu-group": spu_group,
    "topic": topic,
    "partition": partition,
    "replica": replica,
    "segment": segment,
    "connection": connection,
    "controller": controller,
    "draw": draw,
}
_TRIGGER_COMMANDS = {
    **deploy_command.COMMANDS,
    **export_command.COMMANDS,
    **logs_command.COMMANDS,
    **state_command.COMMANDS,
    **trigger_commands.COMMANDS,
}


class PublicSc(Struct):
    running: RunningWorkflow
    network: MemoryNetwork
    log_ends: dict[int, int] = field(default_factory=dict)
    """The log end that each SPU reports; the lowest is the high watermark."""

    async def ask_spu(self, spu_id: SpuId, message: Any) -> Any:
        if isinstance(message, DescribeReplicasRequest):
            return self._describe_replicas(spu_id, message)
        return await self.running.spus.ask_spu(spu_id, message)

    def _describe_replicas(self, spu_id: SpuId, request: DescribeReplicasRequest) -> DescribeReplicasResponse:
        end = self.log_ends.get(spu_id, 0)
        high_watermark = min(self.log_ends.values(), default=0)
        epochs = [EpochStart(0, 0)] if request.epochs_max else []
        return DescribeReplicasResponse(
            [
                DescribedReplica(
                    each.topic_id, number, spu_id == 1, 0, end, high_watermark, 70 * end, epoch=0, epochs=epochs
                )
                for each in request.topics
                for number in each.partitions
            ]
        )


async def tailrace(network: MemoryNetwork, *words: str) -> int:
    """Runs `tailrace` with these words; returns the exit status."""
    if words[0] == "apply":
        return await apply.COMMANDS["apply"].execute(parse(words), network)
    group, name = words[:2]
    if group == "trigger":
        return await _TRIGGER_COMMANDS[name].execute(parse(words), network)
    return await _GROUPS[group].COMMANDS[name].execute(parse(words), network)


@asynccontextmanager
async def public_sc(replicas: ReplicaProvisioner | None = None) -> AsyncIterator[PublicSc]:
    network = MemoryNetwork()
    logger = structlog.get_logger()
    # What is printed is the command's alone.
    with capture_logs():
        async with running_workflow(replicas=replicas) as running, trio.open_nursery() as nursery:
            sc = PublicSc(running, network)
            host = PublicHost(
                running.workflow.cluster,
                running.broker_configs,
                running.host.quotas,
                running.administration,
                running.objects,
                running.workflow.local,
                running.workflow.status_changes,
                sc.ask_spu,
                running.spus.connections,
                running.host.controllers,
                running.host.describe_server,
                running.host.trigger_requests,
                running.host.archive_requests,
            )
            server = PublicServer(
                host,
                KNOWN,
                running.broker_configs,
                ServerMetrics(KNOWN),
                logger,
                clients_max=100,
                files=SimulatedFiles(),
                quotas=host.quotas,
            )
            listener = await network.listen(ADDRESS)
            nursery.start_soon(server.serve, listener, ListenerSettings("PUBLIC", ADDRESS))
            yield sc
            nursery.cancel_scope.cancel()
