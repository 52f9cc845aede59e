"""A whole SPU on simulated seams: memory for a network, simulated files, a clock that jumps, chance from a seed."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog
import trio
from simulation.client import WireClient
from simulation.files import SimulatedFiles
from simulation.network import MemoryNetwork

from tailrace.broker.spu import Spu
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.records import Record, build_batch
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, SpuSettings

ADDRESS = Address("spu-1", 9005)
METRICS = Address("spu-1", 9008)


class SteadyClock:
    """Wall-clock time that only moves when a test says so."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms


@dataclass
class World:
    """What outlives an SPU: start another one on it to see what a restart finds."""

    files: SimulatedFiles = field(default_factory=SimulatedFiles)
    network: MemoryNetwork = field(default_factory=MemoryNetwork)
    clock: SteadyClock = field(default_factory=SteadyClock)

    def seams(self) -> Seams:
        return Seams(self.network, self.files, self.clock, RandomChance(1))


@dataclass
class RunningSpu:
    spu: Spu
    world: World

    async def client(self) -> WireClient:
        return WireClient(await self.world.network.connect(ADDRESS))

    async def create(
        self, name: str, partitions: int = 1, configs: Mapping[str, str | None] | None = None
    ) -> TopicSpec:
        (made,) = await self.spu.controller.create_topics([NewTopic(name, partitions, 1, configs=configs)])
        assert isinstance(made, TopicSpec), made
        return made


@asynccontextmanager
async def running_spu(world: World | None = None, broker: Mapping[str, str] | None = None) -> AsyncIterator[RunningSpu]:
    """Stopped cleanly at the end; cancel the task that holds it to stop it as kill -9 does."""
    world = world or World()
    settings = SpuSettings(
        1,
        "/data/spu-1",
        (ListenerSettings("PUBLIC", ADDRESS),),
        ListenerSettings("METRICS", METRICS),
        broker=broker or {},
    )
    spu = Spu(settings, world.seams(), structlog.get_logger())
    async with trio.open_nursery() as nursery:
        await nursery.start(spu.run)
        yield RunningSpu(spu, world)
        spu.stop()


def batch(*values: bytes | None, timestamp: int = 1_700_000_000_000, **attributes: Any) -> bytes:
    """A batch as a producer sends it, a record for each value."""
    records = [Record(offset, timestamp + offset, None, value) for offset, value in enumerate(values)]
    return bytes(build_batch(records, **attributes))


def newest(api: ApiKey) -> int:
    return API_TABLE[api].max_version
