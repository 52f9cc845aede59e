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
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.network import Address, receive_some
from tailrace.security.identity.server_names import SC_NAME, spu_name
from tailrace.security.settings.security_settings import parse_security_settings
from tailrace.server.encryption.server_links import connect_to_server
from tailrace.server.encryption.server_tls import ServerTls

PRIVATE_1 = Address("spu-1", 9006)


def tls_of(cluster: ClusterOfSpus, *names: str) -> ServerTls:
    """Returns TLS with a certificate of the cluster's authority for the names."""
    settings = parse_security_settings(private_tls(*names)).listener("PRIVATE").tls
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
