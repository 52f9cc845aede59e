"""What the handlers that describe or read an SPU's storage need of the SPU, one interface per need.

`Spu` satisfies all of these without naming them; `handlers.SpuHost` is where mypy checks that.
"""

from typing import TYPE_CHECKING, Protocol

from tailrace.broker.peers.peer_links import PeerLinks
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.shelves.shelf_keeper import ShelfKeeper
from tailrace.broker.upkeep.storage_limit import StorageLimit
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.ids import SpuId
from tailrace.runtime.files import Files
from tailrace.runtime.network import Address
from tailrace.runtime.wall_clock import WallClock

if TYPE_CHECKING:
    from tailrace.server.encryption.certificate_watch import CertificateWatch


class StoreHost(Protocol):
    """For handlers that read replicas."""

    @property
    def replicas(self) -> ReplicaRegistry:
        """The replicas that this SPU holds."""


class DirectoryHost(StoreHost, Protocol):
    """For handlers that name the data directory."""

    @property
    def data_directory(self) -> str:
        """The one directory in which this SPU stores everything."""


class VolumeHost(DirectoryHost, Protocol):
    """For `describe_log_dirs`, which also measures the volume."""

    @property
    def files(self) -> Files:
        """The file system that the data directory is on."""


class MachineHost(VolumeHost, Protocol):
    """For `describe_server`, which describes this SPU and what it uses of its machine."""

    @property
    def id(self) -> SpuId:
        """The id of this SPU."""

    @property
    def cluster(self) -> Cluster:
        """The mirror of the cluster."""

    @property
    def listening(self) -> list[tuple[str, Address]]:
        """The names and addresses on which this SPU listens for clients."""

    @property
    def wall_clock(self) -> WallClock:
        """The clock of this SPU."""

    @property
    def certificates(self) -> "CertificateWatch | None":
        """Knows when certificates expire; None without encrypted listeners."""

    @property
    def storage_limit(self) -> StorageLimit:
        """The size limit of this SPU's logs."""


class PeersHost(DirectoryHost, Protocol):
    """For `describe_spu`, which also describes links."""

    @property
    def peers(self) -> PeerLinks:
        """The links to other SPUs."""


class ShelfHost(Protocol):
    """For handlers that fill and read the shelves on this SPU."""

    @property
    def shelf_keeper(self) -> ShelfKeeper:
        """The shelves that this SPU stores for other leaders."""
