from collections.abc import Awaitable, Callable

import pytest
import trio
from peers import cluster_of, identity
from simulation.client import WireClient
from simulation.network import MemoryConnection, connected_pair

from tailrace.broker.peers.peer_frames import frame
from tailrace.broker.peers.peer_handshake import (
    INTRODUCTION_BYTES_MAX,
    Introduced,
    RefusedError,
    accept_introduction,
    introduce,
)
from tailrace.broker.peers.peer_messages import PeerIdentity
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.ping_message import PingMessage
from tailrace.protocol.internal.refuse_message import RefuseMessage

Outcome = PeerIdentity | Introduced | Exception


async def _outcome(call: Callable[[], Awaitable[PeerIdentity | Introduced]], outcomes: list[Outcome]) -> None:
    try:
        outcomes.append(await call())
    except (RefusedError, RemoteProtocolError, OSError) as error:
        outcomes.append(error)


async def _meet(
    *, dialler: int = 2, dialled: int = 1, wanted: int = 1, theirs: Cluster | None = None, ours: Cluster | None = None
) -> tuple[Outcome, Outcome]:
    """Returns the results of the dialling side and of the dialled side."""
    theirs, ours = theirs or cluster_of(1, 2), ours or cluster_of(1, 2)
    near, far = connected_pair()
    at_dialler: list[Outcome] = []
    at_dialled: list[Outcome] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_outcome, lambda: introduce(near, identity(dialler), theirs, SpuId(wanted)), at_dialler)
        nursery.start_soon(_outcome, lambda: accept_introduction(far, identity(dialled), ours), at_dialled)
    return at_dialler[0], at_dialled[0]


def _refusal(outcome: Outcome) -> tuple[ErrorCode, str]:
    assert isinstance(outcome, RefusedError)
    return outcome.code, str(outcome)


async def test_both_sides_learn_each_others_identity() -> None:
    assert await _meet() == (identity(1), Introduced(identity(2), is_for_requests=False))


async def test_spus_of_two_clusters_have_no_business() -> None:
    near, far = await _meet(ours=cluster_of(1, 2, cluster_id="another"))
    assert _refusal(near) == _refusal(far)
    code, reason = _refusal(near)
    assert code is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert "another" in reason
    assert "the-cluster" in reason


async def test_an_unregistered_spu_is_refused() -> None:
    near, far = await _meet(ours=cluster_of(1, 3))
    assert _refusal(near) == _refusal(far) == (ErrorCode.BROKER_ID_NOT_REGISTERED, "SPU 2 is not known to SPU 1")


async def test_one_that_does_not_know_its_cluster_yet_says_so() -> None:
    near, _ = await _meet(ours=Cluster())
    assert _refusal(near) == (ErrorCode.BROKER_NOT_AVAILABLE, "SPU 1 does not know its cluster yet")


async def test_an_spu_does_not_link_with_itself() -> None:
    near, _ = await _meet(dialler=1, dialled=1)
    assert _refusal(near)[0] is ErrorCode.DUPLICATE_BROKER_REGISTRATION


async def test_another_spu_at_the_address_is_not_the_one_that_was_wanted() -> None:
    near, _ = await _meet(dialled=3, ours=cluster_of(1, 2, 3), theirs=cluster_of(1, 2, 3))
    assert _refusal(near)[1] == "SPU 3 answers there, not SPU 1"


async def test_a_refusal_with_an_unknown_code_is_understood() -> None:
    near, far = connected_pair()
    parts: list[bytes] = frame(RefuseMessage(9999, "because"))  # type: ignore[assignment]
    await WireClient(far).send(b"".join(parts))
    with pytest.raises(RefusedError, match="because") as refused:
        await introduce(near, identity(2), cluster_of(1, 2), SpuId(1))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def _ping() -> bytes:
    parts: list[bytes] = frame(PingMessage())  # type: ignore[assignment]
    return b"".join(parts)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "this looks like HTTP"),
        ((INTRODUCTION_BYTES_MAX + 1).to_bytes(4, "big"), "a frame has 65537 bytes"),
        (b"\xff\xff\xff\xff", "a frame has -1 bytes"),
        (b"\0\0\0\0", "ends within its header"),
        (_ping(), "PING before the introduction"),
    ],
)
async def test_anything_else_is_no_introduction(sent: bytes, reason: str) -> None:
    near, far = connected_pair()
    await WireClient(near).send(sent)
    with pytest.raises(RemoteProtocolError, match=reason):
        await accept_introduction(far, identity(1), cluster_of(1, 2))


async def test_a_closed_connection_is_no_protocol_error() -> None:
    near, far = connected_pair()
    near.close()
    with pytest.raises(OSError, match="ended before the introduction"):
        await accept_introduction(far, identity(1), cluster_of(1, 2))


async def test_what_follows_an_introduction_is_left_for_the_link() -> None:
    near, far = connected_pair()
    outcomes: list[Outcome] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_outcome, lambda: introduce(near, identity(2), cluster_of(1, 2), SpuId(1)), outcomes)
        await accept_introduction(far, identity(1), cluster_of(1, 2))
        await WireClient(far).send(b"and more")
    assert outcomes == [identity(1)]
    assert _received(near) == b"and more"


def _received(connection: MemoryConnection) -> bytes:
    buffer = bytearray(100)
    return bytes(buffer[: connection.receive_into(memoryview(buffer)) or 0])
