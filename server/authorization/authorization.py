"""Puts guards around the handlers of a server, and knows the access of each of its clients."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from tailrace.cluster.cluster import Cluster
from tailrace.security.acls.acl_codes import Operation, ResourceType
from tailrace.security.acls.authorizer import Authorizer
from tailrace.server.request_context import ClientIdentity, Reply, RequestContext

from .access import Access
from .authorization_row import Row
from .authorization_table import TABLE

Handle = Callable[[RequestContext, Any], Reply]
Guard = Callable[[Row, Access, Handle, RequestContext, Any], Reply]


class Authorization:
    """The authorization of one server. A server without an authorizer has none."""

    def __init__(self, authorizer: Authorizer, cluster: Cluster, auto_creates_topics: Callable[[], bool]) -> None:
        """`auto_creates_topics` tells whether a request for metadata may create topics."""
        self.authorizer = authorizer
        self._cluster = cluster
        self._auto_creates_topics = auto_creates_topics

    @property
    def version(self) -> int:
        """A number that changes whenever a decision may change. What a connection has learned is valid until then."""
        return self.authorizer.version

    def access_of(self, client: ClientIdentity) -> Access:
        """Returns what a client may do. A client whose principal has changed gets a new access."""
        access = client.access
        if not isinstance(access, Access) or access.principal is not client.principal:
            access = client.access = Access(
                self.authorizer, self._cluster, self._auto_creates_topics, client.principal, client.host
            )
        return access

    def guarded(self, api_key: int, handle: Handle) -> Handle:
        """Returns the handler of an API with the guard around it."""
        row = TABLE[api_key]
        if not row.guard:
            return handle
        module, _, function = row.guard.partition(":")
        guard: Guard = getattr(importlib.import_module(f"{__package__}.{module}"), function)
        return partial(self._handle, row, guard, handle)

    def may_produce(self, client: ClientIdentity, topic: str | UUID, transactional_id: str | None) -> bool:
        """Whether a client may write to a topic, and may use the transactional id if there is one."""
        access = self.access_of(client)
        if access.is_unlimited:
            return True
        if isinstance(topic, UUID):
            found = self._cluster.topic_by_id(topic)
            if found is None:
                return False
            topic = found.name
        return access.may(Operation.WRITE, ResourceType.TOPIC, topic) and (
            transactional_id is None or access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        )

    def _handle(self, row: Row, guard: Guard, handle: Handle, context: RequestContext, request: Any) -> Reply:
        access = self.access_of(context.client)
        if access.is_unlimited:
            return handle(context, request)
        return guard(row, access, handle, context, request)
