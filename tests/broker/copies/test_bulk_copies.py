"""What others hand over to a follower that lacks a lot, against a whole SPU that has it."""

import pytest
import trio
from msgspec.structs import replace
from simulation.network import MemoryNetwork
from spus import ADDRESS, filled, running_spu, spus_from

from tailrace.broker.copies.bulk_copies import ANSWER_SECONDS_MAX, AT_ONCE_MAX, LIMITS, FetchedPortions
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.replication.copying import CopyRequest
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.network import Network

THERE, AWAY = map(SpuId, (1, 3))


def _portions(network: Network) -> FetchedPortions:
    cluster = Cluster()
    endpoints = (Endpoint("PUBLIC", ADDRESS.host, ADDRESS.port),)
    cluster.put_spu(SpuSpec(THERE, endpoints=endpoints))
    cluster.put_spu(SpuSpec(AWAY, endpoints=endpoints, online=False))
    return FetchedPortions(spus_from(SpuId(9), cluster, network), BrokerMetrics())


def _asked(offset: int, bytes_max: int = 1_000_000, source: SpuId = THERE) -> CopyRequest:
    return CopyRequest(source, Epoch(9), offset, bytes_max)


async def test_a_portion_is_what_is_committed_from_the_offset_on(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        portions = _portions(running.world.network)
        copied, received = await portions.fetch(replica, _asked(2))
        assert [(entry.base, entry.end) for entry in copied.entries] == [(2, 3), (3, 4)]
        assert (copied.high_watermark, copied.failure) == (4, None)
        assert received is not None
        assert [header.base_offset for header in received.headers] == [2, 3]
        copied, received = await portions.fetch(replica, _asked(0, bytes_max=1))
        assert [entry.base for entry in copied.entries] == [0]
        copied, received = await portions.fetch(replica, _asked(4))
        assert (copied.entries, copied.high_watermark, copied.failure, received) == ((), 4, None, None)


@pytest.mark.parametrize("source", [AWAY, SpuId(77)], ids=["away", "unknown"])
async def test_who_is_not_there_hands_over_nothing(autojump_clock: object, source: SpuId) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        copied, received = await _portions(running.world.network).fetch(replica, _asked(0, source=source))
        assert (copied.entries, copied.failure, received) == ((), "it is not there", None)


async def test_what_the_holder_does_not_have_or_is_of_a_later_epoch_is_not_copied(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        portions = _portions(running.world.network)
        for asked in (_asked(5), replace(_asked(0), epoch=Epoch(-1))):
            copied, received = await portions.fetch(replica, asked)
            assert (copied.entries, received) == ((), None)
            assert copied.failure is not None


async def test_who_does_not_answer_is_not_waited_for_and_keeps_few_others_waiting(autojump_clock: object) -> None:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)
    async with running_spu() as running:
        replica = await filled(running)
        portions = _portions(network)
        failures: list[str | None] = []

        async def fetch() -> None:
            failures.append((await portions.fetch(replica, _asked(0)))[0].failure)

        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE_MAX + 1):
                nursery.start_soon(fetch)
        assert trio.current_time() - begun == 2 * ANSWER_SECONDS_MAX
        assert failures == [f"it has not answered within {ANSWER_SECONDS_MAX:g} s"] * (AT_ONCE_MAX + 1)
    listener.close()


async def test_it_says_how_many_bytes_it_has_copied(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        metrics = BrokerMetrics()
        portions = _portions(running.world.network)
        portions._metrics = metrics
        _, received = await portions.fetch(replica, _asked(0))
        assert received is not None
        assert metrics.copied_bytes == len(received.data) == replica.log.size_bytes


async def test_logs_that_may_part_or_are_compacted_are_not_copied(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        portions = _portions(running.world.network)
        assert portions.limits(replica) is LIMITS
        spec, settings = replica.spec, replica.settings
        replica.spec = replace(spec, was_unclean=True)
        assert portions.limits(replica) is None
        replica.spec = spec
        replica.settings = settings_of({"cleanup.policy": "compact"}, BrokerConfigs({}))
        assert portions.limits(replica) is None
        replica.settings = settings
