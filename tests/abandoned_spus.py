"""An SPU that has lost its Streaming Controller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
import trio
from scripted_sc import SC_ADDRESS, scripted_sc, topic_state
from simulation.client import WireClient
from spus import ADDRESS, World

from tailrace.broker.spu_server import SpuServer
from tailrace.protocol.ids import TopicId
from tailrace.runtime.settings import ListenerSettings, SpuSettings

SETTINGS = SpuSettings(1, "/data/spu-1", (ListenerSettings("PUBLIC", ADDRESS),), controllers=(SC_ADDRESS,))
TOPIC = TopicId(int=7)


@asynccontextmanager
async def client_of_abandoned_spu() -> AsyncIterator[WireClient]:
    """Yields a client of an SPU that leads the only partition of topic `t`."""
    world = World()
    server = SpuServer(SETTINGS, world.seams(), structlog.get_logger())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        async with scripted_sc(world.network) as sc:
            await sc.introduce(server.settings.id, topic_state(TOPIC, "t"))
        await trio.testing.wait_all_tasks_blocked()
        yield WireClient(await world.network.connect(ADDRESS))
        server.stop()
