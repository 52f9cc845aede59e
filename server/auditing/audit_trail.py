"""Takes the events of a server, and writes them to its audit log in batches.

Events wait in a bounded queue, and recording one never waits. An event that finds the queue full, or whose write fails,
is lost and counted, and the log says how many were lost. A server can be told to stop instead.
"""

from collections import deque
from collections.abc import Callable, Hashable
from zlib import crc32

import trio
from msgspec.structs import replace

from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock
from tailrace.security.audit.audit_event import TEXT_CHARACTERS_MAX, AuditEvent, AuditKind, Outcome
from tailrace.security.audit.repeated_events import RepeatedEvents
from tailrace.server.request_context import ClientIdentity
from tailrace.server.server_metrics import AuditCounts

from .audit_files import AuditFiles

QUEUED_MAX = 10_000
"""How many events may wait."""
LINGER_SECONDS = 0.5
"""How long events wait for others, so that one sync of the disk and one signature are for many events."""
REPEATED_MS = 60_000
"""The interval in which equal decisions become one line."""
REMEMBERED_MAX = 10_000
"""How many different decisions are remembered at a time."""
RESOURCES_PER_PRINCIPAL_MAX = 1024
"""For how many resources a principal gets lines of their own in an interval, for each operation.

Clients choose names freely. Names beyond that are counted under others, so that no client can make the log forget what
others did.
"""
NAMES_PER_ADDRESS_MAX = 16
"""For how many names an address gets lines of their own in an interval if it cannot authenticate."""
CLOSING_SECONDS_MAX = 5.0
_CERTIFICATE = "SSL"
"""The mechanism of clients that authenticate with a certificate."""


class AuditTrail:
    def __init__(
        self,
        files: AuditFiles,
        wall_clock: WallClock,
        logger: FilteringBoundLogger,
        on_failure: Callable[[], None] = lambda: None,
        on_written: Callable[[], None] = lambda: None,
        counts: AuditCounts | None = None,
    ) -> None:
        """`on_failure` is called when events could not be written, and `on_written` when some were."""
        self._files = files
        self._wall_clock = wall_clock
        self._logger = logger
        self._on_failure = on_failure
        self._on_written = on_written
        self._queue: deque[AuditEvent] = deque()
        self._repeated = RepeatedEvents(REPEATED_MS, REMEMBERED_MAX)
        self._unwritten = 0
        """How many events were lost since the last line that says so."""
        self.counts = counts or AuditCounts()
        self._recorded = trio.Event()

    # recording

    def authenticated(self, client: ClientIdentity) -> None:
        """Records that a client has proven who it is."""
        event = self._event(AuditKind.AUTHENTICATION, Outcome.ALLOWED, client)
        key = (AuditKind.AUTHENTICATION, event.outcome, client.principal, client.host, client.mechanism)
        self._record_limited(key, replace(event, mechanism=client.mechanism or _CERTIFICATE))

    def not_authenticated(self, client: ClientIdentity, mechanism: str, name: str, why: str) -> None:
        """Records that a client could not prove that it is the user of this name."""
        key = (AuditKind.AUTHENTICATION, client.host, _bucket(name, NAMES_PER_ADDRESS_MAX))
        resource = f"USER:{name}" if name else ""
        event = self._event(AuditKind.AUTHENTICATION, Outcome.FAILED, client, resource=resource, why=why)
        self._record_limited(key, replace(event, mechanism=mechanism[:TEXT_CHARACTERS_MAX]))

    def not_encrypted(self, address: str, host: str) -> None:
        """Records that client and server did not come to terms about TLS. The log of the server has the reason."""
        event = AuditEvent(
            AuditKind.AUTHENTICATION,
            self._wall_clock.now_ms(),
            Outcome.FAILED,
            address=host or address,
            mechanism=_CERTIFICATE,
            why="the TLS handshake failed",
        )
        self._record_limited((AuditKind.AUTHENTICATION, host, _CERTIFICATE), event)

    def allowed(
        self, client: ClientIdentity, client_id: str | None, operation: str, resource: str, why: str = ""
    ) -> None:
        """Records that a client may do something. The caller does so once for a connection, operation and resource."""
        event = self._event(AuditKind.AUTHORIZATION, Outcome.ALLOWED, client, client_id, operation, resource, why)
        self._record_limited(self._key(event), event)

    def denied(
        self, client: ClientIdentity, client_id: str | None, operation: str, resource: str, why: str = ""
    ) -> None:
        """Records that a client may not do something. Equal refusals become one line with a count."""
        event = self._event(AuditKind.AUTHORIZATION, Outcome.DENIED, client, client_id, operation, resource, why)
        self._record_limited(self._key(event), event)

    def changed(
        self,
        client: ClientIdentity,
        client_id: str | None,
        request: str,
        resource: str,
        error: str = "",
        *,
        is_done: bool = True,
    ) -> None:
        """Records that a request has changed a resource, or has failed with an error, or was only made."""
        outcome = Outcome.FAILED if error else Outcome.DONE if is_done else Outcome.REQUESTED
        event = self._event(AuditKind.CHANGE, outcome, client, client_id, request, resource, error)
        if error:
            self._record_limited(self._key(event), event)
        else:
            self.record(event)

    def record(self, event: AuditEvent) -> None:
        """Queues an event. It is lost if too many wait."""
        if len(self._queue) >= QUEUED_MAX:
            self._lose(event.count)
            return
        self._queue.append(event)
        self._recorded.set()

    def _record_limited(self, key: Hashable, event: AuditEvent) -> None:
        for each in self._repeated.add(key, event):
            self.record(each)

    def _key(self, event: AuditEvent) -> Hashable:
        """Returns the key under which equal decisions are counted."""
        bucket = _bucket(event.resource, RESOURCES_PER_PRINCIPAL_MAX)
        return event.outcome, event.principal, event.address, event.operation, bucket

    def _event(
        self,
        kind: AuditKind,
        outcome: Outcome,
        client: ClientIdentity,
        client_id: str | None = None,
        operation: str = "",
        resource: str = "",
        why: str = "",
    ) -> AuditEvent:
        # Events wait, and equal ones are remembered for a minute, so that they must not keep what will not be written.
        return AuditEvent(
            kind,
            self._wall_clock.now_ms(),
            outcome,
            str(client.principal)[:TEXT_CHARACTERS_MAX],
            client.host or client.address,
            (client_id or "")[:TEXT_CHARACTERS_MAX],
            client.mechanism,
            operation,
            resource[:TEXT_CHARACTERS_MAX],
            why[:TEXT_CHARACTERS_MAX],
        )

    # writing

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Writes events until it is cancelled, and then those that still wait."""
        task_status.started()
        try:
            while True:
                with trio.move_on_after(REPEATED_MS / 1000):
                    await self._recorded.wait()
                    await trio.sleep(LINGER_SECONDS)
                for event in self._repeated.due(self._wall_clock.now_ms()):
                    self.record(event)
                with trio.CancelScope(shield=True):  # events that left the queue would be lost
                    await self._write_queued()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSING_SECONDS_MAX):
                for event in self._repeated.rest():
                    self.record(event)
                await self._write_queued()
            self._files.close()

    async def _write_queued(self) -> None:
        self._recorded = trio.Event()
        events = list(self._queue)
        self._queue.clear()
        if self._unwritten:
            lost = AuditEvent(AuditKind.LOST, self._wall_clock.now_ms(), count=self._unwritten)
            events.append(lost)
        if not events:
            return
        try:
            await self._files.write(events, self._wall_clock.now_ms())
        except OSError as error:
            self._lose(sum(event.count for event in events if event.kind is not AuditKind.LOST))
            self._logger.error("audit_write_failed", lost=self.counts.lost_audit_events, reason=str(error))
            self._on_failure()
        else:
            self._unwritten = 0
            self._on_written()
            self.counts.audited_events += sum(event.kind is not AuditKind.LOST for event in events)

    def _lose(self, count: int) -> None:
        self.counts.lost_audit_events += count
        self._unwritten += count


def _bucket(name: str, buckets: int) -> int:
    """Returns a number below `buckets` that is always the same for a name."""
    return crc32(name.encode(errors="backslashreplace")) % buckets
