"""The SC's objects, each with a spec (what should be) and a status (what is).

Objects are immutable. An update is a new object, made from the version in the store that its writer had seen. The names
and resolutions are those of the project's design documents, since people read them.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from tailrace.cluster.specs import NO_LEADER, Shelf
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId, TopicId
from tailrace.runtime.network import Address
from tailrace.security.records.security_records import SecurityRecord
from tailrace.security.settings.secret import NO_SECRET, Secret
from tailrace.security.settings.security_protocol import SecurityProtocol

GIBIBYTE = 1024**3
PUBLIC_PORT = 9005
PRIVATE_PORT = 9006
FIRST_ID = SpuId(0)
TRIGGER_REPLICAS_MAX = 100
"""The most replicas of a trigger: each is a process with worker processes of its own."""
GROUP_REPLICAS_MAX = 1000
"""The largest SPU group: each replica becomes an object and a process."""

LiveReplicas = Mapping[SpuId, str]
"""The live replicas, each with the store incarnation that is known to have everything that was committed."""

ReplicaMap = Mapping[int, tuple[SpuId, ...]]
"""The SPUs that hold each partition, by partition number, with the preferred leader first."""


class SpuType(StrEnum):
    MANAGED = "Managed"
    """A provisioner starts and stops the SPU on behalf of an SPU group."""
    CUSTOM = "Custom"
    """An administrator registers the SPU and starts it."""


class Encryption(StrEnum):
    """What an endpoint must use. An endpoint without it uses what the settings of its SPU say."""

    PLAINTEXT = "PLAINTEXT"
    TLS = "TLS"


class PublicEndpoint(Struct, frozen=True):
    """The address at which clients connect to an SPU."""

    port: int = PUBLIC_PORT
    ingress: tuple[str, ...] = ("localhost",)
    """The host names that clients are told."""
    encryption: Encryption | None = None


class PrivateEndpoint(Struct, frozen=True):
    """The address at which other SPUs connect to an SPU."""

    port: int = PRIVATE_PORT
    host: str = "localhost"
    encryption: Encryption | None = None


class SpuSpec(Struct, frozen=True):
    """What an SPU should be."""

    id: SpuId
    type: SpuType = SpuType.CUSTOM
    rack: str | None = None
    public: PublicEndpoint = PublicEndpoint()
    private: PrivateEndpoint = PrivateEndpoint()
    size_bytes: int | None = None
    """How much the SPU may store, or None for as much as its disk takes."""
    log_directory: str | None = None
    group: str | None = None
    """The SPU group that owns a managed SPU."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Kafka's broker settings with which a managed SPU is started."""


class SpuResolution(StrEnum):
    INIT = "Init"
    """The SPU is registered and has not connected yet."""
    ONLINE = "Online"
    OFFLINE = "Offline"


class PublicListener(Struct, frozen=True):
    """A public listener as the running SPU reports it, with the address that clients are told."""

    name: str
    host: str
    port: int
    on_all_addresses: bool = False
    """Whether the SPU listens on all addresses of its machine; `host` is the one from which it connects to the SC."""
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


class SpuStatus(Struct, frozen=True):
    """What an SPU is, as it reported when it connected."""

    resolution: SpuResolution = SpuResolution.INIT
    incarnation: str = ""
    """The process incarnation, which is new each time the SPU's process starts."""
    store_incarnation: str = ""
    """The store incarnation, which changes when the SPU's disk may have lost some of its contents."""
    listeners: tuple[PublicListener, ...] = ()
    private: Address | None = None
    reason: str = ""
    private_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


class Spu(Struct, frozen=True):
    """An SPU that is registered in the cluster."""

    spec: SpuSpec
    status: SpuStatus = SpuStatus()
    version: int = 0
    """The object's version in the KV store, or 0 if it is not stored yet. Every kind of object has this field."""

    @property
    def is_online(self) -> bool:
        return self.status.resolution is SpuResolution.ONLINE


class SpuTemplate(Struct, frozen=True):
    """The part of the spec that all SPUs of a group share."""

    rack: str | None = None
    public: PublicEndpoint = PublicEndpoint()
    private: PrivateEndpoint = PrivateEndpoint()
    size_bytes: int | None = GIBIBYTE
    log_directory: str | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


class SpuGroupSpec(Struct, frozen=True):
    """What an SPU group should be: `replicas` SPUs with consecutive ids from `min_id` on."""

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
    """A set of managed SPUs with the same settings."""

    name: str
    spec: SpuGroupSpec
    status: SpuGroupStatus = SpuGroupStatus()
    version: int = 0


class TopicSpec(Struct, frozen=True):
    """What a topic should be."""

    partitions: int = 1
    replication_factor: int = 1
    replica_map: ReplicaMap = field(default_factory=dict)
    """Rows that a person chose; the SC computes the others.

    In a document, `partitions` and `replication_factor` may be left out if the rows begin with partition 0.
    """
    ignores_racks: bool = False
    configs: Mapping[str, str] = field(default_factory=dict)
    """The topic's own configs by Kafka's names, each checked and in canonical form."""


class TopicResolution(StrEnum):
    NONE = ""
    """The topic was just stored, and the Topic Controller has not seen it yet."""
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
    """A topic, which is a list of partitions with the same configs."""

    name: str
    id: TopicId
    """An id that no other topic ever had, not even one of the same name, so that a new topic starts empty."""
    spec: TopicSpec
    status: TopicStatus = TopicStatus()
    version: int = 0


class PartitionSpec(Struct, frozen=True):
    """Which SPUs should hold a partition."""

    initial_leader: SpuId
    """The preferred leader."""
    replicas: tuple[SpuId, ...]
    """All SPUs that hold a replica or should get one."""
    copy_sets: tuple[tuple[SpuId, ...], ...] = ()
    """The copy sets while the replicas are being changed: the newest last, after the sets that it takes over from.

    Empty if all replicas form the only copy set.
    """
    shelved_from: int = 0
    """The offset before which records are deleted for good, if there are shelves. It never falls while there are."""
    shelves: tuple[Shelf, ...] = ()
    """The shelves in the order of their offsets; each begins where the one before ends."""

    @property
    def shelved_end(self) -> int:
        """The offset before which every record is on a shelf or deleted, or 0 if there are no shelves."""
        return self.shelves[-1].end if self.shelves else 0

    def with_replicas(
        self, initial_leader: SpuId, replicas: tuple[SpuId, ...], copy_sets: tuple[tuple[SpuId, ...], ...] = ()
    ) -> "PartitionSpec":
        """Returns the spec with other replicas and the same shelves."""
        return replace(self, initial_leader=initial_leader, replicas=replicas, copy_sets=copy_sets)

    @property
    def copy_set(self) -> tuple[SpuId, ...]:
        """The newest copy set: the replicas whose copies count towards a commit."""
        return self.copy_sets[-1] if self.copy_sets else self.replicas

    @property
    def adding(self) -> tuple[SpuId, ...]:
        """The replicas that must catch up before they join a copy set."""
        return tuple(spu for spu in self.replicas if self.copy_sets and not any(spu in each for each in self.copy_sets))


class PartitionResolution(StrEnum):
    NONE = ""
    """The partition was just stored, and the Partition Controller has not seen it yet."""
    OFFLINE = "Offline"
    ELECTION = "Election"
    CANDIDATE_FOUND = "CandidateFound"
    ONLINE = "Online"


_LED = (PartitionResolution.CANDIDATE_FOUND, PartitionResolution.ONLINE)


class PartitionStatus(Struct, frozen=True):
    """What an election decided about a partition, and what its leader reported."""

    resolution: PartitionResolution = PartitionResolution.NONE
    leader: SpuId = NO_LEADER
    """The last elected leader, which keeps its place here while it is offline; see `leads`."""
    epoch: Epoch = NO_EPOCH
    """The epoch of the last election. It never falls, and no two elections have the same."""
    incarnation: str = ""
    """The incarnation of the leader's process when it was elected. A restarted process must be elected anew."""
    live_replicas: LiveReplicas = field(default_factory=dict)
    live_version: int = 0
    """A number that rises when the live replicas change, and when a change was refused."""
    reason: str = ""
    was_unclean: bool = False
    """Whether a leader that may have lacked committed records was ever elected.

    It is never reset, since a replica may have been offline since that election.
    """

    @property
    def leads(self) -> SpuId:
        """The SPU that leads now, or NO_LEADER while the partition is offline or in an election."""
        return self.leader if self.resolution in _LED else NO_LEADER


class Partition(Struct, frozen=True):
    """A partition of a topic."""

    topic: str
    topic_id: TopicId
    number: int
    spec: PartitionSpec
    status: PartitionStatus = PartitionStatus()
    version: int = 0


def shelf_keepers_of(partition: Partition) -> tuple[SpuId, ...]:
    """Returns the SPUs that store or are filling a shelf of the partition, each once."""
    shelves = partition.spec.shelves
    return tuple(dict.fromkeys(spu for shelf in shelves for spu in (*shelf.stores, *shelf.filling)))


def keepers_of(partition: Partition) -> tuple[SpuId, ...]:
    """Returns the SPUs that have or should get a replica or a shelf of the partition."""
    if not partition.spec.shelves:
        return partition.spec.replicas
    return tuple(dict.fromkeys((*partition.spec.replicas, *shelf_keepers_of(partition))))


def shelves_on(spu: SpuId, partitions: Iterable[Partition]) -> int:
    """Returns how many shelves of the partitions the SPU stores or is filling."""
    shelves = (shelf for partition in partitions for shelf in partition.spec.shelves)
    return sum(spu in shelf.stores or spu in shelf.filling for shelf in shelves)


class DeletedTopic(Struct, frozen=True):
    """A deleted topic, which can be brought back as long as the SPUs keep its files parked."""

    topic: Topic
    deleted_at_ms: int
    version: int = 0


class ConfigOverrides(Struct, frozen=True):
    """Broker configs that were set at run time."""

    spu: str
    """The SPU's id as text, or the empty text for all SPUs."""
    configs: Mapping[str, str]
    version: int = 0


class GroupConfigs(Struct, frozen=True):
    """The configs of a consumer group. They may be set before the group exists, and they outlive it."""

    group: str
    configs: Mapping[str, str]
    version: int = 0


class ClusterIdentity(Struct, frozen=True):
    """The id of the cluster. A store has one such object."""

    cluster_id: str
    version: int = 0
    login_secret: Secret = NO_SECRET
    """The secret from which all servers compute the salts of users that do not exist."""


class ProducerIdBlock(Struct, frozen=True):
    """The start of the next block of producer ids. A store has one such object."""

    next_id: int
    """The first producer id that was not given out."""
    version: int = 0


class StreamAttribute(Struct, frozen=True):
    """The attribute of one consumer group in the state object of a stream: the members that handle its shards."""

    topic: str
    group: str
    text: str
    """The attribute as JSON, which the members write. See `tailrace.cluster.stream_state`."""
    version: int = 0


class ArchiveHead(Struct, frozen=True):
    """The head of an archive of the data pipeline: its last commit, which exactly one writer of a race has made."""

    archive: str
    """The id of the archive."""
    text: str
    """The head as JSON, which the archive's writers write. The SC does not look into it."""
    version: int = 0


class FunctionSnapshot(Struct, frozen=True):
    """The function of a deployed trigger, as its file was when the trigger was deployed."""

    path: str
    """The path of the file, for error messages."""
    source: str
    """The content of the file."""
    handler: str | None = None
    """The name of the function in the file; None if there is only one that it can be."""
    directory: str | None = None
    """The directory from which the file may import others, on the machine of the replicas."""
    python: str | None = None
    """The Python interpreter that runs the replicas; None for that of the process that starts them."""


class TriggerSpec(Struct, frozen=True):
    """What a trigger should be: a function that replicas call for every record of a topic."""

    topic: str
    group: str
    function: FunctionSnapshot
    config: Mapping[str, object] = field(default_factory=dict)
    """The configuration of the trigger as a document, which only replicas understand."""
    replicas: int = 1
    """The number of replicas; the largest number if it follows the lag."""
    min_replicas: int | None = None
    """The smallest number of replicas if it follows the lag; None if it is fixed."""
    paused: bool = False
    revision: int = 1
    """A number that rises if running replicas must be replaced."""
    metrics: Address | None = None
    """Where the first replica serves its metrics; each of the others has the next port. None without metrics."""


class TriggerResolution(StrEnum):
    NONE = ""
    WAITING = "Waiting"
    """The topic does not exist, so there is nothing to run."""
    RUNNING = "Running"
    REDEPLOYING = "Redeploying"
    """Replicas are being replaced one by one by replicas of the newest revision."""
    PAUSED = "Paused"
    RUN_BY_HAND = "RunByHand"
    """Nothing is deployed: people have started the replicas. No object in the store has this status."""


class TriggerStatus(Struct, frozen=True):
    resolution: TriggerResolution = TriggerResolution.NONE
    reason: str = ""
    """Why there are as many replicas as there are, or what a redeployment waits for."""
    revisions: tuple[int, ...] = ()
    """The revision that each replica should run. Their number is the number of replicas that should run now."""


class Trigger(Struct, frozen=True):
    """A function that was deployed to run for every record of a topic."""

    name: str
    spec: TriggerSpec
    status: TriggerStatus = TriggerStatus()
    version: int = 0


class SecurityEntry(Struct, frozen=True):
    """A stored user, access rule, quota or delegation token. No request for objects returns it."""

    record: SecurityRecord
    version: int = 0


def replica_name(index: int) -> str:
    """Returns the name of a trigger's replica, which is its id as a member: the first one is `replica1`."""
    return f"replica{index + 1}"


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
    | StreamAttribute
    | ArchiveHead
    | Trigger
    | SecurityEntry
)
