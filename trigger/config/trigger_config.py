"""The configuration of a trigger, as typed values that were checked. Readers of each source make one."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class SeekTo(StrEnum):
    """Where a shard begins that has no committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Order(StrEnum):
    """Which records wait for each other."""

    SHARD = "shard"
    """A record waits for all earlier records of its shard."""
    KEY = "key"
    """A record waits for earlier records of its shard with the same key."""


class Acknowledgement(StrEnum):
    AUTOMATIC = "automatic"
    """An event is acknowledged when its handler returns."""
    EXPLICIT = "explicit"
    """An event is acknowledged when the function says so, which may be later and in any order."""
    EITHER = "either"
    """An event is acknowledged when its handler returns, unless the handler says that it does so later."""


class Guarantee(StrEnum):
    """How often the output of a record is stored."""

    AT_LEAST_ONCE = "at-least-once"
    """After a crash a record may be handled again, and its output is then stored twice."""
    EXACTLY_ONCE = "exactly-once"
    """Output and mark are in one transaction, so that readers of committed records see each output once."""


class RetryMode(StrEnum):
    IN_ORDER = "in-order"
    """The shard waits until the event is handled or given up."""
    ASIDE = "aside"
    """The event goes to a retry topic, and the shard goes on."""


class OnExhausted(StrEnum):
    """What happens to an event whose attempts have all failed."""

    DEAD_LETTER = "dead-letter"
    SKIP = "skip"
    """The event is logged and counted, and the shard goes on."""
    STOP = "stop"
    """The shard stops at the event until a person acts. The other shards go on."""


class Retry(Struct, frozen=True):
    """How many times, and after which pauses, a failed event is handled again."""

    attempts: int = 5
    """How many times an event is handled at most, including the first time."""
    backoff: tuple[float, float] = (0.1, 30.0)
    """The pause before the second attempt, and the longest pause. Pauses double, and chance shortens them."""
    mode: RetryMode = RetryMode.IN_ORDER
    max_age: float | None = None
    """The age in seconds at which a failed record is given up without more attempts; None for no limit."""
    split_batch: bool = False
    """Whether a failed batch of events is cut in half, so that one bad event fails alone."""


class TriggerConfig(Struct, frozen=True, kw_only=True):
    """The whole configuration of a trigger. Durations are in seconds."""

    name: str
    topic: str
    group: str
    brokers: tuple[str, ...] = ()
    """Bootstrap addresses, `host:port`; empty for those of the cluster that the command talks to."""
    replicas: int = 1
    """The number of replicas among which the shards are divided; the maximum if the number follows the lag."""
    min_replicas: int | None = None
    """The smallest number of replicas; None if the number is fixed."""
    max_workers: int = 1
    """How many worker processes each replica has."""
    seek_to: SeekTo = SeekTo.LATEST
    read_batch_size: int = 0
    """The largest number of records that one read takes; 0 leaves it to the size in bytes."""
    polling_interval: float = 0.0
    """The pause between two reads of a shard. With 0 a read waits at the broker until there are records."""
    session_timeout: float = 10.0
    """How long a member keeps its shards without a heartbeat."""
    heartbeat_interval: float = 3.0
    commit_interval: float = 1.0
    batch_size: int = 0
    """How many events the handler gets at once; 0 for single events."""
    batch_seconds: float = 0.0
    """How long a batch waits until it is full."""
    event_timeout: float = 60.0
    """How long the handler may take for one event or batch before its worker is killed."""
    stop_timeout: float = 10.0
    """How long running events may take to end when the replica is asked to stop."""
    order: Order = Order.SHARD
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    acknowledgement: Acknowledgement = Acknowledgement.AUTOMATIC
    open_events_max: int = 1000
    """With explicit acknowledgement: how many events of a shard may be open."""
    acknowledgement_timeout: float = 60.0
    """With explicit acknowledgement: after this time an open event is handed out again."""
    retry: Retry = Retry()
    on_exhausted: OnExhausted = OnExhausted.DEAD_LETTER
    dead_letters: str | None = None
    """The topic of dead letters; None for `<topic>.<group>.dead`."""
    worker_memory_max: int | None = None
    """How many bytes of memory a worker may use before it is replaced; None for no limit."""
    access_key: str | None = None
    """The access key for the data, which is the password of SASL."""
    access_user: str | None = None
    """The user of the access key for SASL; None for the name of the trigger."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the workers."""

    @property
    def is_explicit(self) -> bool:
        """Whether an event can stay open after its handler has returned, until the function acknowledges it."""
        return self.acknowledgement is not Acknowledgement.AUTOMATIC

    @property
    def is_exactly_once(self) -> bool:
        """Whether output is stored in transactions."""
        return self.guarantee is Guarantee.EXACTLY_ONCE

    @property
    def dead_letter_topic(self) -> str:
        return self.dead_letters or f"{self.topic}.{self.group}.dead"

    @property
    def retry_topic(self) -> str:
        return f"{self.topic}.{self.group}.retry"
