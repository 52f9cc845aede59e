"""Connects to the private ports of other SPUs to send requests of Kafka's protocol.

Private ports trust no address: the SPUs introduce themselves, and with TLS each side has to prove its id.
"""

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.error_codes import RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Connection, Network
from tailrace.security.identity.server_names import spu_name
from tailrace.server.encryption.server_links import connect_to_server
from tailrace.server.encryption.server_tls import ServerTls

from .peer_addresses import private_address
from .peer_handshake import RefusedError, introduce
from .peer_messages import PeerIdentity


class RequestDialler:
    """Dials other SPUs for requests."""

    def __init__(self, identity: PeerIdentity, cluster: Cluster, network: Network, tls: ServerTls | None) -> None:
        self._identity = identity
        self._cluster = cluster
        self._network = network
        self._tls = tls

    async def dial(self, spu: SpuId) -> Connection:
        """Returns a connection on which the SPU serves requests. Raises OSError with the reason.

        The caller bounds the time.
        """
        address = private_address(self._cluster, spu)
        if address is None:
            raise OSError(f"the address of the private port of SPU {spu} is not known")
        connection = await connect_to_server(self._network, address, spu_name(spu), self._tls)
        try:
            await introduce(connection, self._identity, self._cluster, spu, for_requests=True)
        except (RefusedError, RemoteProtocolError) as error:
            connection.close()
            raise ConnectionError(f"SPU {spu} refuses the connection: {error}") from error
        except BaseException:
            connection.close()
            raise
        return connection
