"""Tests the metrics of a run."""

import structlog
import trio
from grouped_spu import grouped_spu
from simulation.files import SimulatedFiles
from simulation.network import MemoryNetwork
from spus import ADDRESS
from structlog.testing import capture_logs
from trigger_replicas import config

from tailrace.client.log_client import LogClient
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.pipeline.engine.engine_metrics import serve_metrics, shard_gauges
from tailrace.pipeline.engine.engine_results import EngineCounts, RangeResult
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address, receive_some, send_all
from tailrace.runtime.seams import Seams


async def test_the_lag_is_what_lies_behind_the_marks(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.produce("orders", 0, 5)
        counts = EngineCounts()
        counts.add([RangeResult("orders", 0, 0, 2, events=2), RangeResult("orders", 1, 0, 0)])
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        gauges = await shard_gauges(LogClient(spus), counts, 0)
        spus.close()
        assert [gauges[shard].lag_records for shard in (0, 1)] == [3, 0]


async def test_metrics_have_the_names_of_a_replica(autojump_clock: object) -> None:
    async with grouped_spu() as spu, trio.open_nursery() as nursery:
        await spu.running.create("orders", 1)
        counts = EngineCounts()
        counts.add([RangeResult("orders", 0, 0, 2, events=2, dead_letters=1)])
        seams = Seams(spu.network, SimulatedFiles(), spu.clock, RandomChance(1))
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        address = Address("127.0.0.1", 9300)
        nursery.start_soon(serve_metrics, config(), counts, address, seams, structlog.get_logger(), spus)
        await trio.sleep(1)
        text = await _scraped(spu.network, address)
        assert 'tailrace_trigger_events_total{trigger="billing"} 2.0' in text
        assert 'tailrace_trigger_dead_letters_total{trigger="billing"} 1.0' in text
        assert 'tailrace_trigger_lag_records{shard="0",trigger="billing"} 0.0' in text
        with capture_logs() as logged:
            await serve_metrics(config(), counts, address, seams, structlog.get_logger(), spus)
        assert [each["event"] for each in logged] == ["metrics_not_served"]
        spus.close()
        nursery.cancel_scope.cancel()


async def _scraped(network: MemoryNetwork, address: Address) -> str:
    connection = await network.connect(address)
    await send_all(connection, b"GET /metrics HTTP/1.1\r\n\r\n")
    received, buffer = b"", memoryview(bytearray(1 << 16))
    while count := await receive_some(connection, buffer):
        received += buffer[:count]
    return received.decode()
