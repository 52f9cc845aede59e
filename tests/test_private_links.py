"""Private ports with TLS: servers of the cluster prove who they are, and nobody else can claim to be one."""

import pytest
import structlog
import trio
import trio.testing
from certificates import private_tls
from clusters import ClusterOfSpus, cluster_of
from msgspec.structs import replace
from running_sc import PRIVATE
from simulation.client import WireClient
from structlog.testing import capture_logs

from tailrace.broker.peers.peer_handshake import RefusedError, introduce
from tailrace.broker.peers.peer_messages import PeerIdentity
from tailrace.broker.peers.request_dialler import RequestDialler
from tailrace.broker.spu_server import SpuServer
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.network import Address, Connection, receive_some
from tailrace.security.identity.server_names import SC_NAME, spu_name
from tailrace.security.settings.security_settings import parse_security_settings
from tailrace.server.encryption.server_links import accept_server, connect_to_server
from tailrace.server.encryption.server_tls import ServerTls

PRIVATE_1 = Address("spu-1", 9006)


def tls_of(cluster: ClusterOfSpus, *names: str, is_foreign: bool = False) -> ServerTls:
    """Returns TLS with a certificate for the names, of the cluster's authority unless it is foreign."""
    settings = parse_security_settings(private_tls(*names, is_foreign=is_foreign)).listener("PRIVATE").tls
    assert settings is not None
    return ServerTls(settings, "PRIVATE", cluster.world.seams().files, structlog.get_logger())


async def test_a_cluster_with_encrypted_private_ports_replicates_and_asks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of(1, 2, is_encrypted=True) as cluster:
        assert await cluster.create(1, "t", 1, 2, min_insync_replicas="2") == 0
        ((leader, _),) = (await cluster.leaders(1, "t")).values()
        assert await cluster.produce(leader, "t", 0, b"x", timeout_ms=10_000) == 0
        spus = cluster.spus[1].spu
        response = await spus._spu_requests.send(
            SpuId(2), "me", API_TABLE[ApiKey.METADATA], MetadataRequest(None), seconds=5
        )
        assert [topic.name for topic in response.topics] == ["t"]


async def test_an_spu_with_the_certificate_of_another_one_is_not_admitted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of(1, is_encrypted=True) as cluster:
        await cluster.world.register(2, host="spu-{}")
        forged = replace(cluster.settings_of(2), broker=private_tls(spu_name(3)))
        with capture_logs() as logs:
            server = SpuServer(forged, cluster.seams_of(2), structlog.get_logger())
            with trio.move_on_after(3):
                await server.run()
        rejected = [each["reason"] for each in logs if each["event"] == "spu_rejected"]
        assert rejected
        assert "is for spu-3.tailrace, and not for spu-2.tailrace" in rejected[0]


async def test_an_sc_with_the_certificate_of_an_spu_is_not_believed(autojump_clock: trio.testing.MockClock) -> None:
    async with cluster_of(1, is_encrypted=True) as cluster:
        with pytest.raises(OSError, match=r"is for sc.tailrace, and not for spu-1.tailrace"):
            await connect_to_server(cluster.world.network, PRIVATE, spu_name(1), tls_of(cluster, spu_name(2)))
        with pytest.raises(OSError, match=r"is for spu-1.tailrace, and not for sc.tailrace"):
            await connect_to_server(cluster.world.network, PRIVATE_1, SC_NAME, tls_of(cluster, spu_name(2)))


@pytest.mark.parametrize("for_requests", [False, True])
async def test_a_link_with_a_forged_id_is_refused(
    autojump_clock: trio.testing.MockClock, *, for_requests: bool
) -> None:
    async with cluster_of(1, 2, is_encrypted=True) as cluster:
        members = cluster.spus[1].spu.cluster
        connection = await connect_to_server(
            cluster.world.network, PRIVATE_1, spu_name(1), tls_of(cluster, spu_name(3), "localhost")
        )
        forged = PeerIdentity(SpuId(2), "forged", "forged")
        with capture_logs() as logs:
            with pytest.raises(RefusedError) as refused:
                await introduce(connection, forged, members, SpuId(1), for_requests=for_requests)
            await trio.testing.wait_all_tasks_blocked()
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert "is for localhost, spu-3.tailrace, and not for spu-2.tailrace" in str(refused.value)
        assert "private_request_refused" in [each["event"] for each in logs]


@pytest.mark.parametrize("address", [PRIVATE, PRIVATE_1])
async def test_a_stranger_without_a_certificate_is_refused(
    autojump_clock: trio.testing.MockClock, address: Address
) -> None:
    async with cluster_of(1, is_encrypted=True) as cluster:
        stranger = await cluster.world.network.connect(address)
        with capture_logs() as logs:
            stranger.send([b"\0\0\0\x10" + bytes(16)])
            buffer = memoryview(bytearray(100))
            while await receive_some(stranger, buffer):
                pass
        (line,) = [each for each in logs if each["event"] == "private_request_refused"]
        assert "does not speak TLS" in line["reason"]


async def test_an_spu_with_a_certificate_of_another_authority_is_not_admitted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with cluster_of(1, is_encrypted=True) as cluster:
        await cluster.world.register(2, host="spu-{}")
        forged = replace(cluster.settings_of(2), broker=private_tls(spu_name(2), is_foreign=True))
        with capture_logs() as logs:
            server = SpuServer(forged, cluster.seams_of(2), structlog.get_logger())
            with trio.move_on_after(3):
                await server.run()
        assert server.spu is None or not server.spu.cluster.spus
        assert {each["event"] for each in logs} >= {"private_request_refused", "sc_unreachable"}
        assert "spu_connected" not in {each["event"] for each in logs}


@pytest.mark.parametrize("address", [PRIVATE, PRIVATE_1])
async def test_a_caller_with_a_certificate_of_another_authority_is_refused(
    autojump_clock: trio.testing.MockClock, address: Address
) -> None:
    async with cluster_of(1, 2, is_encrypted=True) as cluster:
        name = SC_NAME if address == PRIVATE else spu_name(1)
        with capture_logs() as logs:
            tls = tls_of(cluster, spu_name(2), is_foreign=True)
            with pytest.raises((OSError, RefusedError, RemoteProtocolError)):
                connection = await connect_to_server(cluster.world.network, address, name, tls)
                await introduce(
                    connection, PeerIdentity(SpuId(2), "forged", "forged"), cluster.spus[1].spu.cluster, SpuId(1)
                )
        (line,) = [each for each in logs if each["event"] == "private_request_refused"]
        assert "the certificate of the peer is not accepted" in line["reason"]


@pytest.mark.parametrize("is_foreign", [True, False])
async def test_an_spu_trusts_no_forged_spu_at_the_address_of_another(
    autojump_clock: trio.testing.MockClock, is_foreign: bool
) -> None:
    """The forged SPU has its name from another authority, or another name from the authority of the cluster."""
    async with cluster_of(1, 2, is_encrypted=True) as cluster:
        await cluster.kill_spu(2)
        received = await _forged(
            cluster, Address("spu-2", 9006), tls_of(cluster, spu_name(2 if is_foreign else 3), is_foreign=is_foreign)
        )
        spu = cluster.spus[1].spu
        dialler = RequestDialler(
            PeerIdentity(SpuId(1), "store", "process"), spu.cluster, cluster.world.network, tls_of(cluster, spu_name(1))
        )
        with pytest.raises(OSError, match="certificate"):
            await dialler.dial(SpuId(2))
        await trio.testing.wait_all_tasks_blocked()
        assert received == [], "no request reaches the forged SPU"


@pytest.mark.parametrize("is_foreign", [True, False])
async def test_an_spu_trusts_no_forged_sc(autojump_clock: trio.testing.MockClock, is_foreign: bool) -> None:
    """The forged SC has its name from another authority, or is an SPU with a certificate of its own."""
    async with cluster_of(1, is_encrypted=True) as cluster:
        with capture_logs() as logs:
            await cluster.kill_sc()
            name = SC_NAME if is_foreign else spu_name(2)
            received = await _forged(cluster, PRIVATE, tls_of(cluster, name, is_foreign=is_foreign))
            await trio.sleep(5)
        reasons = [each["reason"] for each in logs if each["event"] == "sc_unreachable"]
        assert any("certificate" in reason for reason in reasons), reasons
        assert received == [], "no message reaches the forged SC"


async def _forged(cluster: ClusterOfSpus, address: Address, tls: ServerTls) -> list[bytes]:
    """Listens where another server was, and returns a list of what later arrives after a handshake."""
    received: list[bytes] = []

    async def serve(connection: Connection) -> None:
        try:
            encrypted = await accept_server(connection, tls)
            buffer = memoryview(bytearray(100))
            while count := await receive_some(encrypted, buffer):
                received.append(bytes(buffer[:count]))
        except OSError:
            pass
        finally:
            connection.close()

    async def listen() -> None:
        listener = await cluster.world.network.listen(address)
        while True:
            cluster.nursery.start_soon(serve, await listener.accept())

    cluster.nursery.start_soon(listen)
    await trio.testing.wait_all_tasks_blocked()
    return received


async def test_requests_of_another_spu_are_those_of_a_server(autojump_clock: trio.testing.MockClock) -> None:
    async with cluster_of(1, 2, is_encrypted=True) as cluster:
        identity = PeerIdentity(SpuId(2), "store", "process")
        members = cluster.spus[2].spu.cluster
        tls = tls_of(cluster, spu_name(2))
        connection = await RequestDialler(identity, members, cluster.world.network, tls).dial(SpuId(1))
        client = WireClient(connection)
        response = await client.request(ApiKey.METADATA, 5, MetadataRequest([]))
        assert {each.node_id for each in response.brokers} == {1, 2}
        (served,) = cluster.spus[1].spu._clients._connections  # type: ignore[union-attr]
        assert str(served._client.principal) == "Server:spu-2"
