"""Audit logs in real files, for tests of the commands that read them."""

from pathlib import Path

import structlog
import trio
from audit_logs import NOW_MS

from tailrace.runtime.files import RealFiles
from tailrace.security.audit.audit_event import AuditEvent, AuditKind, Outcome
from tailrace.server.auditing.audit_files import AuditFiles, AuditFileSettings

EVENTS = (
    AuditEvent(AuditKind.AUTHENTICATION, NOW_MS, Outcome.ALLOWED, "User:alice", "192.0.2.1", mechanism="PLAIN"),
    AuditEvent(
        AuditKind.AUTHORIZATION,
        NOW_MS + 1,
        Outcome.DENIED,
        "User:bob",
        "192.0.2.2",
        operation="WRITE",
        resource="TOPIC:orders",
        why="no rule allows it",
        count=3,
    ),
    AuditEvent(AuditKind.CHANGE, NOW_MS + 2, Outcome.DONE, "User:alice", "", "", "", "CreateTopics", "TOPIC:bills"),
)


def write_log(data: Path) -> Path:
    """Writes an audit log into a data directory, and returns the file with its lines."""

    async def write() -> None:
        log = AuditFiles(AuditFileSettings(str(data / "audit")), RealFiles(), structlog.get_logger())
        await log.open()
        for event in EVENTS:
            await log.write([event], NOW_MS)
        log.close()

    data.mkdir(parents=True, exist_ok=True)
    trio.run(write)
    (path,) = (data / "audit").glob("audit-*.log")
    return path
