"""Copies portions of a log from a complete SPU that has it."""

import pytest
import trio
from msgspec.structs import replace
from simulation.network import MemoryNetwork
from spus import ADDRESS, filled, running_spu, spu_requests_from

from tailrace.broker.copies.bulk_copies import AT_ONCE_MAX, LIMITS, RESPONSE_SECONDS_MAX, RemoteBulkCopies
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.replication.copying import CopyRequest
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.network import Network

THERE, AWAY = map(SpuId, (1, 3))


def _copies(network: Network) -> RemoteBulkCopies:
    cluster = Cluster()
    endpoints = (Endpoint("PUBLIC", ADDRESS.host, ADDRESS.port),)
    cluster.put_spu(SpuSpec(THERE, endpoints=endpoints))
    cluster.put_spu(SpuSpec(AWAY, endpoints=endpoints, online=False))
    return RemoteBulkCopies(spu_requests_from(SpuId(9), cluster, network), BrokerMetrics())


def _asked(offset: int, bytes_max: int = 1_000_000, source: SpuId = THERE) -> CopyRequest:
    return CopyRequest(source, Epoch(9), offset, bytes_max)


async def test_a_portion_has_the_committed_batches_from_the_offset_on(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        copies = _copies(running.world.network)
        copied, received = await copies.fetch(replica, _asked(2))
        assert [(entry.base, entry.end) for entry in copied.entries] == [(2, 3), (3, 4)]
        assert (copied.high_watermark, copied.failure) == (4, None)
        assert received is not None
        assert [header.base_offset for header in received.headers] == [2, 3]
        copied, received = await copies.fetch(replica, _asked(0, bytes_max=1))
        assert [entry.base for entry in copied.entries] == [0]
        copied, received = await copies.fetch(replica, _asked(4))
        assert (copied.entries, copied.high_watermark, copied.failure, received) == ((), 4, None, None)


@pytest.mark.parametrize("source", [AWAY, SpuId(77)], ids=["away", "unknown"])
async def test_an_offline_or_unknown_spu_returns_nothing(autojump_clock: object, source: SpuId) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        copied, received = await _copies(running.world.network).fetch(replica, _asked(0, source=source))
        assert (copied.entries, copied.failure, received) == ((), f"SPU {source} is offline or not registered", None)


async def test_offsets_that_the_source_lacks_and_batches_of_later_epochs_are_not_copied(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        copies = _copies(running.world.network)
        for asked in (_asked(5), replace(_asked(0), epoch=Epoch(-1))):
            copied, received = await copies.fetch(replica, asked)
            assert (copied.entries, received) == ((), None)
            assert copied.failure is not None


async def test_a_silent_spu_times_out_and_only_few_requests_wait_at_once(autojump_clock: object) -> None:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)
    async with running_spu() as running:
        replica = await filled(running)
        copies = _copies(network)
        failures: list[str | None] = []

        async def fetch() -> None:
            failures.append((await copies.fetch(replica, _asked(0)))[0].failure)

        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE_MAX + 1):
                nursery.start_soon(fetch)
        assert trio.current_time() - begun == 2 * RESPONSE_SECONDS_MAX
        assert failures == [f"SPU {THERE} did not respond within {RESPONSE_SECONDS_MAX:g} s"] * (AT_ONCE_MAX + 1)
    listener.close()


async def test_copied_bytes_are_counted(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        metrics = BrokerMetrics()
        copies = _copies(running.world.network)
        copies._metrics = metrics
        _, received = await copies.fetch(replica, _asked(0))
        assert received is not None
        assert metrics.copied_bytes == len(received.data) == replica.log.size_bytes


async def test_logs_that_may_diverge_or_are_compacted_are_not_copied(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        copies = _copies(running.world.network)
        assert copies.limits(replica) is LIMITS
        spec, settings = replica.spec, replica.settings
        replica.spec = replace(spec, was_unclean=True)
        assert copies.limits(replica) is None
        replica.spec = spec
        replica.settings = settings_of({"cleanup.policy": "compact"}, BrokerConfigs({}))
        assert copies.limits(replica) is None
        replica.settings = settings
