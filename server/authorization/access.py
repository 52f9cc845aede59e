"""What one client may do: the decisions of the authorizer for the principal and address of a connection."""

from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.ids import NO_TOPIC_ID
from tailrace.security.acls.acl_codes import CLUSTER_NAME, Operation, ResourceType
from tailrace.security.acls.acl_filters import operation_words, resource_words
from tailrace.security.acls.authorizer import REMEMBERED_CHARACTERS_MAX, Authorizer
from tailrace.security.identity.principal import Principal

from .access_audit import AccessAudit
from .authorization_row import Check

REMEMBERED_MAX = 5_000
"""How many decisions a connection remembers. They are forgotten together when there are more.

A connection remembers no refusals, so that a client without permissions cannot fill the memory with names that it
invents. All connections together remember a bounded number of those, in the authorizer.
"""

Item = TypeVar("Item")


class Access:
    """The decisions for one connection. They are remembered until the rules change."""

    __slots__ = (
        "_allowed",
        "_authorizer",
        "_source",
        "_version",
        "audit",
        "auto_creates_topics",
        "cluster",
        "host",
        "is_unlimited",
        "principal",
        "readable",
        "writable",
    )

    def __init__(
        self,
        authorizer: Authorizer,
        cluster: Cluster,
        auto_creates_topics: Callable[[], bool],
        principal: Principal,
        host: str,
        audit: AccessAudit | None = None,
    ) -> None:
        """`audit` records the checks, if the server has an audit log."""
        self._authorizer = authorizer
        self._source = authorizer.source
        self.auto_creates_topics = auto_creates_topics
        self.cluster = cluster
        self.principal = principal
        self.host = host
        self.audit = audit
        self.is_unlimited = authorizer.is_unlimited(principal)
        self._allowed: set[tuple[int, int, str]] = set()
        self.writable: set[str | UUID] = set()
        """Topics, by name or id, that the client may write to; `refresh` forgets them when the rules change."""
        self.readable: set[str | UUID] = set()
        """Topics, by name or id, that the client may read; `refresh` forgets them when the rules change."""
        self._version = authorizer.version

    def refresh(self) -> None:
        """Forgets the decisions if the rules have changed."""
        if self._version != self._source.version:
            self._version = self._source.version
            self._forget()

    @property
    def version(self) -> int:
        """A number that changes whenever a decision may change."""
        return self._authorizer.version

    def may(self, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Whether the client may do the operation with the resource."""
        self.refresh()
        key = (operation, resource, name)
        if key in self._allowed:
            return True
        if not self._authorizer.allows(self.principal, self.host, operation, resource, name):
            return False
        if len(name) <= REMEMBERED_CHARACTERS_MAX:
            if len(self._allowed) >= REMEMBERED_MAX:
                self._forget()
            self._allowed.add(key)
        return True

    def remember(self, topics: set[str | UUID], topic: str | UUID) -> None:
        """Adds a topic to `writable` or `readable`, unless its name is too long for a topic that exists."""
        if isinstance(topic, UUID) or len(topic) <= REMEMBERED_CHARACTERS_MAX:
            topics.add(topic)

    def _forget(self) -> None:
        self._allowed.clear()
        self.writable.clear()
        self.readable.clear()

    def may_in_cluster(self, operation: Operation) -> bool:
        """Whether the client may do the operation with the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_some(self, operation: Operation, resource: ResourceType) -> bool:
        """Whether the client may do the operation with some resource of the type."""
        return self._authorizer.allows_some(self.principal, self.host, operation, resource)

    def allows(self, check: Check, name: str) -> bool:
        """Whether the client passes a check for a resource."""
        allowed = self._passes(check, name)
        if self.audit is not None:
            self.audit.on_checked(check, name, allowed=allowed)
        return allowed

    def _passes(self, check: Check, name: str) -> bool:
        if self.may(check.operation, check.resource, name):
            return True
        if check.with_cluster is not None and self.may_in_cluster(check.with_cluster):
            return True
        return check.with_some is not None and self.may_some(*check.with_some)

    def split(
        self, check: Check, items: Iterable[Item], name_of: Callable[[Item], str | None]
    ) -> tuple[list[Item], list[Item]]:
        """Splits items into those that pass a check and those that do not.

        An item without a name passes: it names a topic by an id that does not exist, which the handler refuses.
        """
        allowed: list[Item] = []
        denied: list[Item] = []
        for item in items:
            name = name_of(item)
            (allowed if name is None or self.allows(check, name) else denied).append(item)
        return allowed, denied

    def operations(self, resource: ResourceType, name: str) -> int:
        """Returns the operations that the client may do with a resource, as the bits that responses have."""
        return self._authorizer.allowed_operations(self.principal, self.host, resource, name)

    def topic_named(self, name: str | None, topic_id: UUID) -> str | None:
        """Returns the name of a topic that a request names by name or by id; None if there is no topic with the id."""
        if topic_id == NO_TOPIC_ID:
            return name
        topic = self.cluster.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def refusal(self, check: Check, name: str) -> str:
        """Says what the client may not do, in a sentence for an error message."""
        resource = (
            "the cluster" if check.resource == ResourceType.CLUSTER else f"{resource_words(check.resource)} {name}"
        )
        return f"{self.principal} may not {operation_words(check.operation)} {resource}"
