"""Audit logs in simulated files, and their verification."""

import structlog
from simulation.files import SimulatedFiles

from tailrace.security.audit.audit_event import AuditEvent, AuditKind
from tailrace.security.audit.audit_signatures import signature_check_of
from tailrace.security.audit.audit_verification import AuditSummary, AuditVerification
from tailrace.server.auditing.audit_files import (
    HEAD,
    VERIFICATION_KEY,
    AuditFiles,
    AuditFileSettings,
    log_names,
)

DIRECTORY = "/data/audit"
NOW_MS = 1_700_000_000_000


def disk() -> SimulatedFiles:
    """Returns a disk with the directory of a server."""
    files = SimulatedFiles()
    files.make_directories("/data")
    return files


async def opened(files: SimulatedFiles, **settings: int) -> AuditFiles:
    """Opens an audit log."""
    log = AuditFiles(AuditFileSettings(DIRECTORY, **settings), files, structlog.get_logger())  # type: ignore[arg-type]
    await files.sync_directory("/")
    await log.open()
    return log


def event(resource: str) -> AuditEvent:
    return AuditEvent(AuditKind.CHANGE, NOW_MS, resource=resource)


def verified(files: SimulatedFiles) -> tuple[AuditSummary, list[str]]:
    """Verifies the log. Returns the result, and the resources or kinds of the lines without checkpoints."""
    verification = AuditVerification(signature_check_of(files.read(f"{DIRECTORY}/{VERIFICATION_KEY}")))
    seen: list[str] = []
    for name in log_names(files, DIRECTORY):
        lines = files.read(f"{DIRECTORY}/{name}").splitlines(keepends=True)
        for line in verification.read_file(name, lines):
            if line.fields["event"] != AuditKind.CHECKPOINT:
                seen.append(str(line.fields.get("resource", line.fields["event"])))
    return verification.end(files.read(f"{DIRECTORY}/{HEAD}") if files.exists(f"{DIRECTORY}/{HEAD}") else None), seen
