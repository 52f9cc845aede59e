"""Records the decisions about one client in the audit log.

What is allowed is recorded once for each operation and resource, so that clients that produce and fetch do not fill the
log. Every refusal is recorded, but not the resources that a listing leaves out.
"""

from typing import TYPE_CHECKING

from tailrace.security.acls.acl_explanation import sentence_of
from tailrace.security.acls.authorizer import REMEMBERED_CHARACTERS_MAX, Authorizer
from tailrace.server.request_context import ClientIdentity

from .authorization_row import Check

if TYPE_CHECKING:
    from tailrace.server.auditing.audit_trail import AuditTrail

RECORDED_MAX = 5_000
"""How many allowed operations are remembered for a connection. They are forgotten together when there are more."""


class AccessAudit:
    __slots__ = ("_authorizer", "_client", "_recorded", "_trail", "client_id")

    def __init__(self, trail: "AuditTrail", client: ClientIdentity, authorizer: Authorizer) -> None:
        self._trail = trail
        self._client = client
        self._authorizer = authorizer
        self._recorded: set[tuple[int, int, str]] = set()
        self.client_id: str | None = None
        """The client id of the request that is checked now."""

    def on_unlimited(self) -> None:
        """Records that the client may do everything."""
        self._trail.allowed(self._client, self.client_id, "ALL", "ANY:*", "super.users has the principal")

    def on_checked(self, check: Check, name: str, *, allowed: bool) -> None:
        """Records the outcome of a check for a resource."""
        key = (check.operation, check.resource, name)
        if not allowed:
            if not check.hides:
                resource = f"{check.resource.name}:{name}"
                why = self._why(check, name, allowed=False)
                self._trail.denied(self._client, self.client_id, check.operation.name, resource, why)
        elif key not in self._recorded:
            if len(name) <= REMEMBERED_CHARACTERS_MAX:
                if len(self._recorded) >= RECORDED_MAX:
                    self._recorded.clear()
                self._recorded.add(key)
            resource = f"{check.resource.name}:{name}"
            self._trail.allowed(
                self._client, self.client_id, check.operation.name, resource, self._why(check, name, allowed=True)
            )

    def _why(self, check: Check, name: str, *, allowed: bool) -> str:
        client = self._client
        decision = self._authorizer.decide(client.principal, client.host, check.operation, check.resource, name)
        if decision.allowed is not allowed:
            return "a permission for another resource suffices"
        return sentence_of(decision)
