"""A cluster in memory, and an admin client that knows it through one SPU, as with `--bootstrap`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clusters import ClusterOfSpus, address_of, cluster_of
from structlog.testing import capture_logs

from tailrace.cli.main import parse
from tailrace.client.admin_client import AdminClient
from tailrace.client.spu_client import BOOTSTRAP, SpuClient


@asynccontextmanager
async def administered(*spus: int) -> AsyncIterator[tuple[ClusterOfSpus, AdminClient]]:
    """Yields a cluster of these SPUs and a client that starts with the first of them."""
    with capture_logs():
        async with cluster_of(*spus) as cluster:
            client = SpuClient(cluster.world.network, [address_of(spus[0])], BOOTSTRAP)
            yield cluster, AdminClient(client)
            client.close()


async def through_brokers(cluster: ClusterOfSpus, *words: str) -> int:
    """Runs `tailrace` with these words and the address of SPU 1; returns the exit status."""
    arguments = parse([*words, "--bootstrap", str(address_of(1))])
    status: int = await arguments.run.__self__.execute(arguments, cluster.world.network)
    return status
