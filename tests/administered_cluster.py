"""A whole cluster in memory with racks of its own, and commands that ask its Streaming Controller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusters import HOST, ClusterOfSpus, address_of, cluster_of
from msgspec import Struct
from running_sc import PUBLIC
from structlog.testing import capture_logs

from tailrace.cli.administration import placement_commands
from tailrace.cli.main import parse
from tailrace.cli.objects import topic_commands


class AdministeredCluster(Struct):
    cluster: ClusterOfSpus

    async def join(self, *spus: int) -> None:
        """Registers and starts more SPUs."""
        await self.cluster.world.register(*spus, host=HOST)
        for spu in spus:
            await self.cluster.start_spu(spu)

    async def topic(self, *words: str, bootstrap: int | None = None) -> int:
        """Runs `tailrace topic …`, through the SC or an SPU; returns the exit status."""
        where = self._where(bootstrap)
        return await topic_commands.COMMANDS[words[0]].execute(
            parse(["topic", *words, *where]), self.cluster.world.network
        )

    async def partition(self, *words: str, bootstrap: int | None = None) -> int:
        where = self._where(bootstrap)
        return await placement_commands.COMMANDS[words[0]].execute(
            parse(["partition", *words, *where]), self.cluster.world.network
        )

    async def rows(self, topic: str) -> dict[int, tuple[list[int], list[int], int]]:
        """Returns replicas, in-sync replicas and leader of each partition, as SPU 1 tells clients."""
        (found,) = (await self.cluster.metadata(1, topic)).topics
        return {
            each.partition_index: (each.replica_nodes, sorted(each.isr_nodes), each.leader_id)
            for each in found.partitions
        }

    def _where(self, bootstrap: int | None) -> tuple[str, str]:
        return ("--sc", str(PUBLIC)) if bootstrap is None else ("--bootstrap", str(address_of(bootstrap)))


@asynccontextmanager
async def administered_cluster(*spus: int) -> AsyncIterator[AdministeredCluster]:
    """Yields a cluster with these SPUs."""
    with capture_logs():
        async with cluster_of(*spus) as cluster:
            yield AdministeredCluster(cluster)
