import pytest
import structlog
import trio
import trio.testing
from mortal_store import MortalStore
from running_sc import METRICS, PRIVATE, PUBLIC, ObedientSpu, ScWorld, running_sc, sc_settings
from running_workflow import RecordedReplicas
from simulation.client import WireClient
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from tailrace.client.sc_client import ScClient
from tailrace.cluster.stream_state.stream_state import GroupState, StreamMember
from tailrace.controller.key_value.interface import Entry, Listing, Put, StoreUnavailable
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.state.object_codec import security_key
from tailrace.controller.streaming_controller import ScAddresses, StartError, StreamingController
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.compile import decode, encode
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.create_object import CreateObjectRequest
from tailrace.protocol.internal_apis import SC_OBJECT_APIS, InternalApiKey
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.network import receive_some
from tailrace.security.records.security_records import ACL
from tailrace.server.handlers import ADMINISTRATIVE, SHARED


async def create_topic(spu: ObedientSpu, name: str, partitions: int, replicas: int) -> CreateTopicsResponse:
    """Creates a topic as a client of the SPU would."""
    request = CreateTopicsRequest([CreatableTopic(name, partitions, replicas)], timeout_ms=10_000)
    answer = await spu.forward(ApiKey.CREATE_TOPICS, 7, b"".join(encode(request, 7)))  # type: ignore[arg-type]
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    await trio.testing.wait_all_tasks_blocked()
    assert spu.metadata[-1].version >= answer.metadata_version, "it was told before it was answered, or soon after"
    return decode(CreateTopicsResponse, 7, answer.body)


async def test_a_cluster_of_three_serves_a_topic_of_six_by_three(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    await world.register(0, 1, 2)
    async with trio.open_nursery() as nursery, running_sc(world) as running:
        spus = [await ObedientSpu(world.network, spu).started(nursery) for spu in (0, 1, 2)]
        response = await create_topic(spus[1], "orders", 6, 3)
        assert [topic.error_code for topic in response.topics] == [ErrorCode.NONE]
        for spu in spus:
            assert len(spu.held) == 6
            assert sum(state.leader == spu.id for state in spu.held.values()) == 2
        client = await running.client()
        metadata = await client.request(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        assert [(broker.node_id, broker.host) for broker in metadata.brokers] == [
            (spu, "localhost") for spu in (0, 1, 2)
        ], "where a person registered them"
        assert metadata.controller_id == 0
        (topic,) = metadata.topics
        assert sorted(partition.leader_id for partition in topic.partitions) == [0, 0, 1, 1, 2, 2]
        nursery.cancel_scope.cancel()


async def test_admin_clients_may_begin_at_the_sc() -> None:
    world = ScWorld()
    async with running_sc(world) as running:
        client = await running.client()
        versions = await client.request(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("test", "1"))
        own = {ApiKey.LIST_OFFSETS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
        assert {api.api_key for api in versions.api_keys} == SHARED | ADMINISTRATIVE | own
        cluster = await client.request(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
        assert cluster.cluster_id
        assert not cluster.brokers
        request = CreateTopicsRequest([CreatableTopic("orders", 1, 1)])
        refused = await client.request(ApiKey.CREATE_TOPICS, 7, request)
        assert [topic.error_code for topic in refused.topics] == [ErrorCode.INVALID_REPLICATION_FACTOR]
        with capture_logs() as logs:
            await client.send(client.encode(ApiKey.FETCH, 12, FetchRequest()))
            assert await client.at_end()
        assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["request_refused"]


async def test_the_cluster_keeps_its_id(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    ids = []
    for _ in range(2):
        async with running_sc(world) as running:
            answer = await (await running.client()).request(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
            ids.append(answer.cluster_id)
    assert ids[0] == ids[1]


async def test_an_id_that_cannot_be_read_is_not_replaced() -> None:
    world = ScWorld()
    await world.store.write([Put("cluster", b"\0", 0)])
    with pytest.RaisesGroup(StartError, flatten_subgroups=True):
        async with running_sc(world):
            pass


async def test_nothing_is_decided_without_an_access_rule_that_cannot_be_read() -> None:
    world = ScWorld()
    await world.store.write([Put(security_key(ACL, "a"), b"\0", 0)])
    with pytest.RaisesGroup(
        pytest.RaisesExc(StartError, match="the access rule under 'security/acl/a' in the store cannot be read"),
        flatten_subgroups=True,
    ):
        async with running_sc(world):
            pass


async def test_spus_keep_their_topics_over_a_restart_of_the_sc(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    await world.register(1, 2)
    async with trio.open_nursery() as nursery:
        async with running_sc(world):
            spus = [await ObedientSpu(world.network, spu).started(nursery) for spu in (1, 2)]
            await create_topic(spus[0], "orders", 4, 2)
        before = dict(spus[0].held)
        for spu in spus:
            spu.online = trio.Event()
        async with running_sc(world) as running:
            for spu in spus:
                await spu.online.wait()
            await trio.sleep(5)
            assert spus[0].held == before, "nobody else was elected"
            answer = await (await running.client()).request(ApiKey.METADATA, 12, MetadataRequest(topics=None))
            assert len(answer.brokers) == 2
        nursery.cancel_scope.cancel()


async def test_a_topic_is_finished_at_whatever_write_the_sc_was_killed(autojump_clock: trio.testing.MockClock) -> None:
    write = 0
    while True:
        store = MortalStore()
        world = ScWorld(store)
        await world.register(0, 1, 2)
        async with trio.open_nursery() as nursery:
            store.writes_left, store.does_the_last = write, write % 2 == 0
            with store.killed:
                async with running_sc(world):
                    spus = [await ObedientSpu(world.network, spu).started(nursery) for spu in (0, 1, 2)]
                    await create_topic(spus[0], "orders", 6, 3)
            store.writes_left = -1
            if not store.killed.cancelled_caught:
                nursery.cancel_scope.cancel()
                break
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery, running_sc(world) as running:
            spus = [await ObedientSpu(world.network, spu).started(nursery) for spu in (0, 1, 2)]
            client = await running.client()
            request = CreateTopicsRequest([CreatableTopic("orders", 6, 3)])
            await client.request(ApiKey.CREATE_TOPICS, 7, request)
            await trio.sleep(5)
            metadata = await client.request(ApiKey.METADATA, 12, MetadataRequest(topics=None))
            (topic,) = metadata.topics
            leaders = [partition.leader_id for partition in topic.partitions]
            assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
            for spu in spus:
                assert len(spu.held) == 6
                assert sum(state.leader == spu.id for state in spu.held.values()) == 2
            nursery.cancel_scope.cancel()
        write += 1
    assert write > 5, "it was killed at every write, until none was left"


async def test_an_spu_that_stays_away_is_offline_after_a_lease(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    await world.register(1, 2)
    async with trio.open_nursery() as nursery:
        async with running_sc(world), trio.open_nursery() as others:
            first = await ObedientSpu(world.network, 1).started(nursery)
            await ObedientSpu(world.network, 2).started(others)
            await create_topic(first, "orders", 1, 2)
            others.cancel_scope.cancel()
        async with running_sc(world) as running:
            client = await running.client()
            before = await client.request(ApiKey.METADATA, 12, MetadataRequest(topics=None))
            assert len(before.brokers) == 2, "it may be about to come back"
            await trio.sleep(2)
            after = await client.request(ApiKey.METADATA, 12, MetadataRequest(topics=None))
            assert [broker.node_id for broker in after.brokers] == [1]
        nursery.cancel_scope.cancel()


async def test_everything_is_told_again_from_time_to_time(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    await world.register(1)
    async with trio.open_nursery() as nursery, running_sc(world, reconciliation_seconds=60):
        spu = await ObedientSpu(world.network, 1).started(nursery)
        await create_topic(spu, "orders", 2, 1)
        spu.held.clear()
        told = spu.full_specs
        await trio.sleep(61)
        assert spu.full_specs == told + 1
        assert len(spu.held) == 2
        nursery.cancel_scope.cancel()


async def test_an_spu_that_stays_away_is_replaced_after_a_while(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    await world.register(1, 2, 3)
    async with trio.open_nursery() as nursery, running_sc(world, replace_after_seconds=600) as running:
        first = await ObedientSpu(world.network, 1).started(nursery)
        term = running.sc._term
        assert term is not None
        local = term.workflow.local
        async with trio.open_nursery() as others:
            await ObedientSpu(world.network, 2).started(others)
            await create_topic(first, "orders", 1, 2)
            others.cancel_scope.cancel()
        await ObedientSpu(world.network, 3).started(nursery)
        await trio.sleep(540)
        assert set(local.topics["orders"].status.replica_map[0]) == {1, 2}
        await trio.sleep(121)
        assert set(local.topics["orders"].status.replica_map[0]) == {1, 3}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_wanted", [True, False])
async def test_preferred_replicas_lead_again_after_a_while(
    autojump_clock: trio.testing.MockClock, is_wanted: bool
) -> None:
    world = ScWorld()
    await world.register(1, 2)
    broker = {"auto.leader.rebalance.enable": str(is_wanted).lower(), "leader.imbalance.check.interval.seconds": "60"}
    async with trio.open_nursery() as nursery, running_sc(world, broker=broker) as running:
        second = await ObedientSpu(world.network, 2).started(nursery)
        term = running.sc._term
        assert term is not None
        local = term.workflow.local
        async with trio.open_nursery() as others:
            await ObedientSpu(world.network, 1).started(others)
            await create_topic(second, "orders", 1, 2)
            others.cancel_scope.cancel()
        (partition,) = local.partitions.values()
        key = (partition.topic_id, 0)
        assert partition.spec.initial_leader == 1
        await trio.sleep(2)
        assert local.partitions[key].status.leads == 2
        await ObedientSpu(world.network, 1).started(nursery)
        await trio.sleep(70)
        assert local.partitions[key].status.leads == (1 if is_wanted else 2)
        nursery.cancel_scope.cancel()


async def test_deleted_topics_are_forgotten_in_time(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    async with running_sc(world, broker={"deleted.topic.retention.ms": "1000"}) as running:
        objects = running.sc._term
        assert objects is not None
        await objects.host.objects.create("topic", '{"name": "orders"}', 0)
        await objects.host.objects.delete("topic", "orders", force=False)
        assert objects.workflow.local.deleted_topics
        world.clock.time_ms += 1000
        await trio.sleep(61)
        assert not objects.workflow.local.deleted_topics


async def _scraped(world: ScWorld, path: str) -> str:
    """Returns the response of the SC's metrics port, with the head."""
    connection = await world.network.connect(METRICS)
    connection.send([f"GET {path} HTTP/1.1\r\n\r\n".encode()])
    buffer = memoryview(bytearray(64 * 1024))
    text = bytearray()
    while count := await receive_some(connection, buffer):
        text += buffer[:count]
    return text.decode()


async def test_metrics_are_served() -> None:
    world = ScWorld()
    async with running_sc(world):
        text = await _scraped(world, "/metrics")
        assert "tailrace_connected_spus 0.0" in text
        assert "tailrace_refused_objects_total 0.0" in text


class _SilentStore(MemoryStore):
    """A store that responds, fails, or does not respond at all."""

    fails = False
    is_silent = False

    async def get(self, key: str) -> Entry | None:
        if self.fails:
            raise StoreUnavailable("the disk is full")
        if self.is_silent:
            await trio.sleep_forever()
        return await super().get(key)


async def test_an_sc_is_ready_while_it_leads_and_its_store_responds(autojump_clock: trio.testing.MockClock) -> None:
    store = _SilentStore()
    world = ScWorld(store)
    async with running_sc(world):
        text = await _scraped(world, "/readyz")
        assert text.startswith("HTTP/1.1 200 OK\r\n")
        assert text.endswith("\r\n\r\nready: the SC leads and its store responds\n")
        store.is_silent = True
        text = await _scraped(world, "/readyz")
        assert text.startswith("HTTP/1.1 503 ")
        assert "not ready: the store has not responded within 2 s" in text
        store.fails = True
        assert "not ready: the store does not respond: the disk is full" in await _scraped(world, "/readyz")
        assert (await _scraped(world, "/healthz")).startswith("HTTP/1.1 200 OK\r\n")


async def test_a_standby_sc_is_alive_and_not_ready(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    await world.store.take("leader", b"another", 1000)
    settings = sc_settings(store="etcd://127.0.0.1:2379")
    standby = StreamingController(settings, world.seams(), world.store, structlog.get_logger())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(standby.run)
        await wait_all_tasks_blocked()
        text = await _scraped(world, "/readyz")
        assert text.startswith("HTTP/1.1 503 ")
        assert text.endswith("not ready: the SC stands by, because another SC leads\n")
        assert (await _scraped(world, "/healthz")).startswith("HTTP/1.1 200 OK\r\n")
        standby.stop()


async def test_only_the_active_one_of_two_scs_listens(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = ScWorld()
    store = MemoryStore()
    logger = structlog.get_logger()
    settings = sc_settings(store="etcd://127.0.0.1:2379", metrics=None)
    first = StreamingController(settings, world.seams(), store, logger)
    second = StreamingController(settings, world.seams(), store, logger)
    started: list[ScAddresses] = []

    async def start(sc: StreamingController, nursery: trio.Nursery) -> None:
        started.append(await nursery.start(sc.run))

    async with trio.open_nursery() as nursery:
        await start(first, nursery)
        nursery.start_soon(start, second, nursery)
        await wait_all_tasks_blocked()
        assert started == [ScAddresses((PUBLIC,), PRIVATE, None)]
        first.stop()
        await trio.sleep(0.1)
        assert len(started) == 2, "the lease was given back, so nobody had to wait for its end"
        (await world.network.connect(PUBLIC)).close()
        second.stop()


async def test_an_sc_that_stands_by_can_be_stopped(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    store = MemoryStore()
    await store.take("leader", b"another", 1000)
    settings = sc_settings(store="etcd://127.0.0.1:2379")
    standby = StreamingController(settings, world.seams(), store, structlog.get_logger())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(standby.run)
        await wait_all_tasks_blocked()
        standby.stop()


class _MuteStore(MemoryStore):
    async def list(self, prefix: str) -> Listing:
        raise StoreUnavailable("the disk is full")


async def test_an_sc_that_waits_for_its_store_can_be_stopped(autojump_clock: trio.testing.MockClock) -> None:
    sc = StreamingController(sc_settings(), ScWorld().seams(), _MuteStore(), structlog.get_logger())
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sc.run)
            await trio.sleep(10)
            sc.stop()


async def test_an_sc_that_lost_its_lease_serves_no_one_until_it_is_active_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = ScWorld()
    store = MemoryStore()
    settings = sc_settings(store="etcd://127.0.0.1:2379")
    sc = StreamingController(settings, world.seams(), store, structlog.get_logger())
    async with trio.open_nursery() as nursery:
        await nursery.start(sc.run)
        lease = await store.get("leader")
        assert lease is not None
        await store.give_up(lease)
        other = await store.take("leader", b"another", 30)
        assert other is not None
        await trio.sleep(3)
        with pytest.raises(OSError):
            await world.network.connect(PUBLIC)
        await store.give_up(other)
        await trio.sleep(1)
        (await world.network.connect(PUBLIC)).close()
        sc.stop()


async def test_an_sc_that_lost_its_lease_keeps_no_client_waiting(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    store = MemoryStore()
    settings = sc_settings(store="etcd://127.0.0.1:2379")
    sc = StreamingController(settings, world.seams(), store, structlog.get_logger())
    async with trio.open_nursery() as nursery:
        await nursery.start(sc.run)
        client = WireClient(await world.network.connect(PUBLIC), apis=SC_OBJECT_APIS)
        registers = CreateObjectRequest("spu", '{"name": "1", "spec": {"spuId": 1}}', timeout_ms=120_000)
        await client.send(client.encode(InternalApiKey.CREATE_OBJECT, 0, registers))
        await trio.sleep(3)
        assert (await store.get("spu/1")) is not None, "the client waits for it to come"
        lease = await store.get("leader")
        assert lease is not None
        await store.give_up(lease)
        await trio.sleep(3)
        (await world.network.connect(PUBLIC)).close()
        again = await store.get("leader")
        assert again is not None, "it leads again"
        assert again != lease
        assert (await client.response()).error_code == ErrorCode.NOT_CONTROLLER
        assert await client.at_end()
        sc.stop()


async def test_a_port_that_is_taken_is_one_clear_error() -> None:
    world = ScWorld()
    taken = await world.network.listen(PRIVATE)
    sc = StreamingController(sc_settings(), world.seams(), world.store, structlog.get_logger())
    with pytest.raises(BaseExceptionGroup) as refused:
        await sc.run()
    assert str(PRIVATE) in str(first_error(refused.value))
    taken.close()


async def test_leases_are_as_long_as_the_settings_say(autojump_clock: trio.testing.MockClock) -> None:
    world = ScWorld()
    await world.register(1)
    settings = {"broker.session.timeout.ms": "9000"}
    async with running_sc(world, broker=settings), trio.open_nursery() as nursery:
        spu = await ObedientSpu(world.network, 1).started(nursery)
        assert (spu.accepted.lease_ms, spu.accepted.heartbeat_ms) == (9000, 3000)
        nursery.cancel_scope.cancel()


async def test_another_sc_keeps_the_replicas_of_triggers_and_the_state_of_streams(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = ScWorld()
    await world.register(1)
    function = {"path": "/billing.py", "source": "..."}
    trigger = {"name": "bill", "topic": "orders", "group": "billing", "replicas": 2, "function": function}
    state = GroupState((StreamMember("replica1", frozenset({0, 1}), 0, "process", 10_000),), 1)
    async with running_sc(world, replicas=RecordedReplicas()):
        client = ScClient(world.network, [PUBLIC])
        await client.create("topic", {"name": "orders", "partitions": 4})
        await client.create("trigger", trigger)
        version = await client.write_stream_state("orders", "billing", 0, state)
        client.close()
    replicas = RecordedReplicas()
    async with running_sc(world, replicas=replicas):
        assert list(replicas.kept) == [("bill", "replica1"), ("bill", "replica2")]
        client = ScClient(world.network, [PUBLIC])
        read = await client.read_stream_state("orders", "billing")
        assert (read.shards, read.replicas, read.state, read.version) == (4, 2, state, version)
        assert read.ages_ms == {"replica1": 0}
        await trio.sleep(3)
        assert (await client.read_stream_state("orders", "billing")).ages_ms == {"replica1": 3000}
        client.close()
