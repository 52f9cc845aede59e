"""The SC's core objects, each with a spec (what is wanted) and a status (what is).

They never change: an update is another object, made from the version of the store that its writer had seen. Kafka's
words stay out; the seed's words for resolutions are kept to the letter, for they are what a person reads.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from tailrace.cluster.specs import NO_LEADER, Shelf
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId, TopicId
from tailrace.runtime.network import Address

GIBIBYTE = 1024**3
PUBLIC_PORT = 9005
PRIVATE_PORT = 9006
FIRST_ID = SpuId(0)
GROUP_REPLICAS_MAX = 1000
"""Of one SPU group: each becomes an object, and a process."""

LiveReplicas = Mapping[SpuId, str]
"""Each with the incarnation of its store that is known to have caught up."""

ReplicaMap = Mapping[int, tuple[SpuId, ...]]
"""By partition number: the SPUs that hold it, the (initial) leader first."""


class SpuType(StrEnum):
    MANAGED = "Managed"
    """Started and stopped by a provisioner, on behalf of an SPU group."""
    CUSTOM = "Custom"
    """Registered by a person, and started by whatever that person uses."""


class Encryption(StrEnum):
    PLAINTEXT = "PLAINTEXT"
    TLS = "TLS"


class PublicEndpoint(Struct, frozen=True):
    """Where clients connect; the host names are what clients are told."""

    port: int = PUBLIC_PORT
    ingress: tuple[str, ...] = ("localhost",)
    encryption: Encryption = Encryption.PLAINTEXT


class PrivateEndpoint(Struct, frozen=True):
    """Where other SPUs connect."""

    port: int = PRIVATE_PORT
    host: str = "localhost"
    encryption: Encryption = Encryption.PLAINTEXT


class SpuSpec(Struct, frozen=True):
    id: SpuId
    type: SpuType = SpuType.CUSTOM
    rack: str | None = None
    public: PublicEndpoint = PublicEndpoint()
    private: PrivateEndpoint = PrivateEndpoint()
    size_bytes: int | None = None
    """How much it may store; None: as much as its disk takes."""
    log_directory: str | None = None
    group: str | None = None
    """The SPU group that owns it, if it is managed."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Kafka's broker settings that it is started with, if it is managed."""


class SpuResolution(StrEnum):
    INIT = "Init"
    """Registered; it has not been heard of yet."""
    ONLINE = "Online"
    OFFLINE = "Offline"


class PublicListener(Struct, frozen=True):
    """A public listener as the running SPU reports it, with the address that clients are told."""

    name: str
    host: str
    port: int


class SpuStatus(Struct, frozen=True):
    resolution: SpuResolution = SpuResolution.INIT
    incarnation: str = ""
    """Another one each time the SPU's process starts."""
    store_incarnation: str = ""
    """Another one when what is on its disk may lack something that it had."""
    listeners: tuple[PublicListener, ...] = ()
    private: Address | None = None
    reason: str = ""


class Spu(Struct, frozen=True):
    spec: SpuSpec
    status: SpuStatus = SpuStatus()
    version: int = 0
    """Of the store, when this object was read; 0: not stored yet."""

    @property
    def is_online(self) -> bool:
        return self.status.resolution is SpuResolution.ONLINE


class SpuTemplate(Struct, frozen=True):
    """What all SPUs of a group are made with."""

    rack: str | None = None
    public: PublicEndpoint = PublicEndpoint()
    private: PrivateEndpoint = PrivateEndpoint()
    size_bytes: int | None = GIBIBYTE
    log_directory: str | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


class SpuGroupSpec(Struct, frozen=True):
    replicas: int = 1
    min_id: SpuId = FIRST_ID
    template: SpuTemplate = SpuTemplate()


class SpuGroupResolution(StrEnum):
    INIT = "Init"
    INVALID = "Invalid"
    RESERVED = "Reserved"


class SpuGroupStatus(Struct, frozen=True):
    resolution: SpuGroupResolution = SpuGroupResolution.INIT
    reason: str = ""


class SpuGroup(Struct, frozen=True):
    name: str
    spec: SpuGroupSpec
    status: SpuGroupStatus = SpuGroupStatus()
    version: int = 0


class TopicSpec(Struct, frozen=True):
    partitions: int = 1
    replication_factor: int = 1
    replica_map: ReplicaMap = field(default_factory=dict)
    """Rows chosen by hand; the SC computes the others. Where partition 0 is among them, the two numbers follow them."""
    ignores_racks: bool = False
    configs: Mapping[str, str] = field(default_factory=dict)
    """Only what the topic sets itself, by Kafka's names; every value is checked and in its canonical form."""


class TopicResolution(StrEnum):
    NONE = ""
    """Just stored: the topic controller has not seen it yet."""
    INIT = "Init"
    PENDING = "Pending"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    INVALID_CONFIG = "InvalidConfig"
    PROVISIONED = "Provisioned"


class TopicStatus(Struct, frozen=True):
    resolution: TopicResolution = TopicResolution.NONE
    replica_map: ReplicaMap = field(default_factory=dict)
    reason: str = ""


class Topic(Struct, frozen=True):
    name: str
    id: TopicId
    """Another one for each topic that ever had the name, so that a new topic starts empty."""
    spec: TopicSpec
    status: TopicStatus = TopicStatus()
    version: int = 0


class PartitionSpec(Struct, frozen=True):
    """The SC's part."""

    initial_leader: SpuId
    replicas: tuple[SpuId, ...]
    """All that have it, or are to have it."""
    copy_sets: tuple[tuple[SpuId, ...], ...] = ()
    """While it gets other replicas: those whose copies count, last, and before them the sets that these take over from.
    Empty: all replicas are one set."""
    shelved_from: int = 0
    """Records before are deleted for good, where there are shelves. It never falls while there are some."""
    shelves: tuple[Shelf, ...] = ()
    """What others keep of it than its replicas, in order, each from the end of the one before."""

    @property
    def shelved_end(self) -> int:
        """All before it is on shelves, or deleted; 0 where there are none."""
        return self.shelves[-1].end if self.shelves else 0

    def with_replicas(
        self, initial_leader: SpuId, replicas: tuple[SpuId, ...], copy_sets: tuple[tuple[SpuId, ...], ...] = ()
    ) -> "PartitionSpec":
        """What is on shelves stays there, whoever has the rest."""
        return replace(self, initial_leader=initial_leader, replicas=replicas, copy_sets=copy_sets)

    @property
    def copy_set(self) -> tuple[SpuId, ...]:
        """Those whose copies count."""
        return self.copy_sets[-1] if self.copy_sets else self.replicas

    @property
    def adding(self) -> tuple[SpuId, ...]:
        """Those that are to have all before their copies count."""
        return tuple(spu for spu in self.replicas if self.copy_sets and not any(spu in each for each in self.copy_sets))


class PartitionResolution(StrEnum):
    NONE = ""
    """Just stored: the partition controller has not seen it yet."""
    OFFLINE = "Offline"
    ELECTION = "Election"
    CANDIDATE_FOUND = "CandidateFound"
    ONLINE = "Online"


_LED = (PartitionResolution.CANDIDATE_FOUND, PartitionResolution.ONLINE)


class PartitionStatus(Struct, frozen=True):
    """The leader's part, and what an election decided."""

    resolution: PartitionResolution = PartitionResolution.NONE
    leader: SpuId = NO_LEADER
    epoch: Epoch = NO_EPOCH
    """Rises with each election, never falls, and is given to one leader only."""
    incarnation: str = ""
    """Of the leader's process when it was elected: one that starts anew is elected anew."""
    live_replicas: LiveReplicas = field(default_factory=dict)
    live_version: int = 0
    """Rises when the live replicas change, and when a change was refused."""
    reason: str = ""
    was_unclean: bool = False
    """A leader was elected once that may have lacked something. A replica may have been away since, so it stays so."""

    @property
    def leads(self) -> SpuId:
        """Who leads now: one that is offline stays named for its return, and so does one that an election follows."""
        return self.leader if self.resolution in _LED else NO_LEADER


class Partition(Struct, frozen=True):
    topic: str
    topic_id: TopicId
    number: int
    spec: PartitionSpec
    status: PartitionStatus = PartitionStatus()
    version: int = 0


def shelf_keepers_of(partition: Partition) -> tuple[SpuId, ...]:
    """Those that have a shelf of it, or are to get one, each of them once."""
    shelves = partition.spec.shelves
    return tuple(dict.fromkeys(spu for shelf in shelves for spu in (*shelf.stores, *shelf.filling)))


def keepers_of(partition: Partition) -> tuple[SpuId, ...]:
    """Those that have a replica of it or a shelf, or are to get one."""
    if not partition.spec.shelves:
        return partition.spec.replicas
    return tuple(dict.fromkeys((*partition.spec.replicas, *shelf_keepers_of(partition))))


def shelves_on(spu: SpuId, partitions: Iterable[Partition]) -> int:
    """How many of their shelves it keeps, or is to get."""
    shelves = (shelf for partition in partitions for shelf in partition.spec.shelves)
    return sum(spu in shelf.stores or spu in shelf.filling for shelf in shelves)


class DeletedTopic(Struct, frozen=True):
    """Remembered until its storage, which the SPUs keep parked, is too old to be brought back."""

    topic: Topic
    deleted_at_ms: int
    version: int = 0


class ConfigOverrides(Struct, frozen=True):
    """Broker configs set at run time, for one SPU or, under the empty name, for all."""

    spu: str
    configs: Mapping[str, str]
    version: int = 0


class GroupConfigs(Struct, frozen=True):
    """What a consumer group sets itself. It may be set before there is such a group, and outlives it."""

    group: str
    configs: Mapping[str, str]
    version: int = 0


class ClusterIdentity(Struct, frozen=True):
    """One per store: what the cluster is called."""

    cluster_id: str
    version: int = 0


class ProducerIdBlock(Struct, frozen=True):
    """One per store: the first producer id that nobody was given."""

    next_id: int
    version: int = 0


Object = (
    Spu
    | SpuGroup
    | Topic
    | Partition
    | DeletedTopic
    | ConfigOverrides
    | GroupConfigs
    | ClusterIdentity
    | ProducerIdBlock
)
