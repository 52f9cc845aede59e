"""What the audit log records: who did what to what, from where, and whether it was allowed."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from msgspec import Struct

TEXT_CHARACTERS_MAX = 500
"""The longest text of an event. Clients choose some of the texts, also clients that have not authenticated."""


class AuditKind(StrEnum):
    """The kind of a line."""

    AUTHENTICATION = "authentication"
    AUTHORIZATION = "authorization"
    CHANGE = "change"
    """A request that changes the cluster, with its outcome for one resource."""
    LOST = "lost"
    """Events that could not be written; `count` says how many."""
    BEGIN = "begin"
    """The first line of a file."""
    CHECKPOINT = "checkpoint"
    """A signature of all lines before it."""


class Outcome(StrEnum):
    """How something ended."""

    ALLOWED = "allowed"
    DENIED = "denied"
    DONE = "done"
    """A change was made."""
    REQUESTED = "requested"
    """A change was asked for; its outcome is not known here."""
    FAILED = "failed"
    """An authentication or a change failed."""


class AuditEvent(Struct, frozen=True):
    """One event. Fields without a value are left out of the line."""

    kind: AuditKind
    time_ms: int
    outcome: Outcome | None = None
    principal: str = ""
    address: str = ""
    """The address of the client without its port."""
    client_id: str = ""
    mechanism: str = ""
    """How the client has authenticated."""
    operation: str = ""
    """What the client wanted to do: an operation of access rules, or the name of a request."""
    resource: str = ""
    """What the client wanted to do it to, for example `TOPIC:orders`."""
    why: str = ""
    count: int = 1
    """How many equal events the line stands for."""


def fields_of(event: AuditEvent) -> dict[str, object]:
    """Returns the fields of an event's line, in their order."""
    texts = {
        "outcome": event.outcome or "",
        "principal": event.principal,
        "address": event.address,
        "client_id": event.client_id,
        "mechanism": event.mechanism,
        "operation": event.operation,
        "resource": event.resource,
        "why": event.why,
    }
    fields: dict[str, object] = {"time": time_text(event.time_ms), "event": event.kind}
    fields |= {name: text[:TEXT_CHARACTERS_MAX] for name, text in texts.items() if text}
    if event.count != 1:
        fields["count"] = event.count
    return fields


def time_text(time_ms: int) -> str:
    """Returns a time in UTC, to the millisecond."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def is_of_event(fields: Mapping[str, object]) -> bool:
    """Tells whether a line is about an event, and not about the log itself."""
    return fields.get("event") not in (AuditKind.BEGIN, AuditKind.CHECKPOINT)
