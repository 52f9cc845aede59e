"""The handshake of a link: two SPUs introduce themselves, or refuse the link.

Anyone can connect, so only small frames are read before the handshake ends, and not for long. Exactly one frame is
read, so that what follows is left for the link.
"""

from typing import NamedTuple

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.codec.framing import SIZE, checked_size
from tailrace.protocol.codec.primitives import Part
from tailrace.protocol.error_codes import ErrorCode, RemoteProtocolError, known_code
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.introduce_message import IntroduceMessage
from tailrace.protocol.internal.refuse_message import RefuseMessage
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.runtime.files import Buffer
from tailrace.runtime.network import Connection, receive_some, send_all
from tailrace.security.identity.server_names import spu_name
from tailrace.server.encryption.server_links import ForgedNameError, check_name

from .peer_frames import frame, read_body, read_key
from .peer_messages import PeerIdentity

INTRODUCTION_SECONDS_MAX = 5.0
INTRODUCTION_BYTES_MAX = 64 * 1024


class RefusedError(Exception):
    """The reason why there is no link between two SPUs, in one sentence."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Introduced(NamedTuple):
    """An SPU that has dialled this one."""

    peer: PeerIdentity
    is_for_requests: bool
    """Whether the connection carries requests, and no messages about replicas."""


async def introduce(
    connection: Connection, own: PeerIdentity, cluster: Cluster, wanted: SpuId, *, for_requests: bool = False
) -> PeerIdentity:
    """Introduces the dialling side; returns the identity of the other SPU.

    Raises RefusedError if either side refuses, RemoteProtocolError or OSError.
    """
    await _send(connection, _introduction(own, cluster, for_requests=for_requests))
    theirs = await _introduction_of(connection)
    peer = _checked(theirs, own, cluster)
    if peer.spu != wanted:
        raise RefusedError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"SPU {peer.spu} answers there, not SPU {wanted}")
    return peer


async def accept_introduction(connection: Connection, own: PeerIdentity, cluster: Cluster) -> Introduced:
    """Introduces the dialled side; returns the identity of the other SPU, which its certificate must have as well.

    Raises RefusedError after the other side was told, RemoteProtocolError or OSError.
    """
    theirs = await _introduction_of(connection)
    try:
        peer = _checked(theirs, own, cluster)
        _check_certificate(connection, peer.spu)
    except RefusedError as refusal:
        await _send(connection, RefuseMessage(refusal.code, str(refusal)))
        connection.end_sending()
        raise
    await _send(connection, _introduction(own, cluster))
    return Introduced(peer, theirs.for_requests)


def _introduction(own: PeerIdentity, cluster: Cluster, *, for_requests: bool = False) -> IntroduceMessage:
    return IntroduceMessage(cluster.cluster_id, own.spu, own.incarnation, own.process, for_requests)


def _check_certificate(connection: Connection, spu: SpuId) -> None:
    try:
        check_name(connection, spu_name(spu))
    except ForgedNameError as error:
        raise RefusedError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, str(error)) from error


def _checked(theirs: IntroduceMessage, own: PeerIdentity, cluster: Cluster) -> PeerIdentity:
    peer = PeerIdentity(SpuId(theirs.spu_id), theirs.incarnation, theirs.process)
    if not cluster.cluster_id:
        raise RefusedError(ErrorCode.BROKER_NOT_AVAILABLE, f"SPU {own.spu} does not know its cluster yet")
    if theirs.cluster_id != cluster.cluster_id:
        raise RefusedError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"SPU {peer.spu} belongs to cluster {theirs.cluster_id}, and SPU {own.spu} to {cluster.cluster_id}",
        )
    if peer.spu == own.spu:
        raise RefusedError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"both sides say that they are SPU {own.spu}")
    if peer.spu not in cluster.spus:
        raise RefusedError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"SPU {peer.spu} is not known to SPU {own.spu}")
    return peer


async def _introduction_of(connection: Connection) -> IntroduceMessage:
    (announced,) = SIZE.unpack(await _receive(connection, SIZE.size))
    received = memoryview(await _receive(connection, checked_size(announced, INTRODUCTION_BYTES_MAX)))
    key = read_key(received)
    if key is InternalApiKey.REFUSE:
        refusal = read_body(RefuseMessage, received)
        raise RefusedError(known_code(refusal.error_code), refusal.error_message)
    if key is not InternalApiKey.INTRODUCE:
        raise RemoteProtocolError(f"{key.name} before the introduction")
    return read_body(IntroduceMessage, received)


async def _receive(connection: Connection, size: int) -> bytes:
    buffer = memoryview(bytearray(size))
    received = 0
    while received < size:
        count = await receive_some(connection, buffer[received:])
        if count == 0:
            raise ConnectionError("the connection ended before the introduction")
        received += count
    return bytes(buffer)


async def _send(connection: Connection, message: IntroduceMessage | RefuseMessage) -> None:
    await send_all(connection, b"".join(map(_buffer, frame(message))))


def _buffer(part: Part) -> Buffer:
    assert isinstance(part, Buffer)
    return part
