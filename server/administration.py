"""The interface through which handlers of admin requests change the cluster; each host implements it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from tailrace.cluster.configs.config_changes import Alteration
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import MorePartitions, NewTopic
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.security.records.security_records import SecurityRecord

from .token_administration import TokenAdministration

TIMEOUT_MS = 30_000
"""The timeout of requests that do not carry one."""


class PartitionName(NamedTuple):
    """The name of a partition."""

    topic: str
    partition: int


class TopicIdentity(NamedTuple):
    """A topic's name and id."""

    name: str
    id: TopicId


class Reassignment(NamedTuple):
    """A request to change the replicas of a partition."""

    topic: str
    partition: int
    replicas: tuple[SpuId, ...] | None
    """The new replicas; None cancels a reassignment."""


class OngoingReassignment(NamedTuple):
    """A partition whose replicas are being changed."""

    topic: str
    partition: int
    replicas: tuple[SpuId, ...]
    """The current replicas and those that are being added."""
    adding: tuple[SpuId, ...]
    removing: tuple[SpuId, ...]


class SecurityEdit(NamedTuple):
    """A change of a stored user, access rule, quota or delegation token, which depends on what is stored now."""

    kind: str
    key: str
    change: Callable[[SecurityRecord | None], SecurityRecord | None]
    """Returns the record that should be stored, given the record that is stored, each None for no record.

    It may be called several times, and raises KafkaError if it refuses the change.
    """


class Administration(Protocol):
    """Changes the cluster.

    Each call returns a result for each argument, in the same order; the mirror has the changes by then. A change that
    has not taken effect when the timeout expires gives REQUEST_TIMED_OUT, and may still take effect later. A call
    raises KafkaError if it could change nothing at all.
    """

    @property
    def tokens(self) -> TokenAdministration:
        """Changes delegation tokens."""

    def identify(self, topic: str | TopicId) -> TopicIdentity | None:
        """Returns the topic of this name or id, even if it waits for SPUs and clients do not see it yet."""

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        """Creates topics; returns each topic, or the reason why it was not created."""

    async def delete_topics(
        self, topic_ids: Sequence[TopicId], *, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        """Deletes topics; returns each topic as it was, or the reason why it was not deleted."""

    async def create_partitions(
        self, requests: Sequence[MorePartitions], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        """Adds partitions; returns each topic with its new partitions, or the reason why it has none."""

    async def elect_leaders(
        self, partitions: Sequence[PartitionName], *, unclean: bool, timeout_ms: int = TIMEOUT_MS
    ) -> list[KafkaError | None]:
        """Elects the preferred leaders or, if `unclean`, any replica; returns None, or the reason for no election."""

    async def reassign(
        self, wanted: Sequence[Reassignment], *, other_factor_allowed: bool = True, timeout_ms: int = TIMEOUT_MS
    ) -> list[KafkaError | None]:
        """Begins or cancels reassignments; returns None, or the reason why the partition is not changed."""

    async def reassignments(self) -> list[OngoingReassignment]:
        """Returns the partitions whose replicas are being changed."""

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """Alters configs; returns None, or the reason why the configs of a resource were not changed at all."""

    async def change_security(
        self,
        puts: Sequence[SecurityRecord] = (),
        removals: Sequence[tuple[str, str]] = (),
        edits: Sequence[SecurityEdit] = (),
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> list[KafkaError | None]:
        """Stores records, removes those of the given kinds and keys, and carries out edits.

        Returns None for each put, then for each removal, then for each edit, or the reason why it was not carried out.
        A removal of a record that does not exist changes nothing.
        """
