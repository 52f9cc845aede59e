"""What changes the cluster on behalf of admin requests. The host decides how; its handlers only speak Kafka."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tailrace.cluster.configs.config_changes import Alteration
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import MorePartitions, NewTopic
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId, TopicId

TIMEOUT_MS = 30_000
"""Where the request has none."""


class PartitionName(NamedTuple):
    topic: str
    partition: int


class TopicIdentity(NamedTuple):
    name: str
    id: TopicId


class Reassignment(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[SpuId, ...] | None
    """None: those that it had."""


class OngoingReassignment(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[SpuId, ...]
    """Those that there are, and those that come."""
    adding: tuple[SpuId, ...]
    removing: tuple[SpuId, ...]


class Administration(Protocol):
    """Each call answers for all that it was given, in the same order; what was done is in the mirror by then.

    What has not taken effect when the client's timeout is over is REQUEST_TIMED_OUT: it may still come. Raises
    KafkaError when nothing could be done at all.
    """

    def identify(self, topic: str | TopicId) -> TopicIdentity | None:
        """The topic of this name or id; also one that waits for SPUs, of which clients are not told yet."""

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        """The topic, or why there is none."""

    async def delete_topics(
        self, topic_ids: Sequence[TopicId], *, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        """The topic as it was, or why it is not deleted."""

    async def create_partitions(
        self, requests: Sequence[MorePartitions], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        """The topic with its new partitions, or why it has none."""

    async def elect_leaders(
        self, partitions: Sequence[PartitionName], *, unclean: bool, timeout_ms: int = TIMEOUT_MS
    ) -> list[KafkaError | None]:
        """Why there is no election, or None when there was one: the preferred replica leads or, uncleanly, any."""

    async def reassign(
        self, wanted: Sequence[Reassignment], *, other_factor_allowed: bool = True, timeout_ms: int = TIMEOUT_MS
    ) -> list[KafkaError | None]:
        """Why a partition's replicas stay as they are, or None when they change from now on."""

    async def reassignments(self) -> list[OngoingReassignment]:
        """What goes on of that."""

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Why nothing of it was done, or None when all of it was."""
