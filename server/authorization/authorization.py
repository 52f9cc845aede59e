"""Puts guards around the handlers of a server, and knows the access of each of its clients."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tailrace.cluster.cluster import Cluster
from tailrace.security.acls.acl_codes import Operation, ResourceType
from tailrace.security.acls.authorizer import Authorizer
from tailrace.security.identity.principal import SERVER
from tailrace.server.request_context import ClientIdentity, Reply, RequestContext

from .access import Access
from .access_audit import AccessAudit
from .authorization_row import Row
from .authorization_table import TABLE

if TYPE_CHECKING:
    from tailrace.server.auditing.audit_trail import AuditTrail

Handle = Callable[[RequestContext, Any], Reply]
Guard = Callable[[Row, Access, Handle, RequestContext, Any], Reply]


class Authorization:
    """The authorization of one server. A server without an authorizer has none."""

    def __init__(
        self,
        authorizer: Authorizer,
        cluster: Cluster,
        auto_creates_topics: Callable[[], bool],
        audit: "AuditTrail | None" = None,
    ) -> None:
        """`auto_creates_topics` tells whether a request for metadata may create topics. `audit` records decisions."""
        self.authorizer = authorizer
        self._cluster = cluster
        self._auto_creates_topics = auto_creates_topics
        self._audit = audit

    @property
    def version(self) -> int:
        """A number that changes whenever a decision may change. What a connection has learned is valid until then."""
        return self.authorizer.version

    def access_of(self, client: ClientIdentity) -> Access:
        """Returns what a client may do. A client whose principal has changed gets a new access."""
        access = client.access
        if not isinstance(access, Access) or access.principal is not client.principal:
            audit = None if self._audit is None else AccessAudit(self._audit, client, self.authorizer)
            access = client.access = Access(
                self.authorizer, self._cluster, self._auto_creates_topics, client.principal, client.host, audit
            )
            if audit is not None and access.is_unlimited and client.principal.kind != SERVER:
                audit.on_unlimited()
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
        if access.audit is not None:
            access.audit.client_id = context.client_id
        return guard(row, access, handle, context, request)
