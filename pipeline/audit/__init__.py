"""Compares all replicas of all partitions from the files of SPUs: `audit(spark, directories)`.

Decisions are pure. Executors read the files, and import neither Trio nor a client. The names here are imported when
they are first used, so that the command line starts fast.
"""

from typing import TYPE_CHECKING

from tailrace.runtime.embedded.lazy_names import lazy_names

if TYPE_CHECKING:
    from .audit_report import AuditResult, CopyRow, FindingRow
    from .audit_verdicts import Verdict
    from .auditing import audit
    from .copy_finding import Expected

__all__ = ["AuditResult", "CopyRow", "Expected", "FindingRow", "Verdict", "audit"]

__getattr__ = lazy_names(
    __name__,
    {
        "AuditResult": "audit_report",
        "CopyRow": "audit_report",
        "Expected": "copy_finding",
        "FindingRow": "audit_report",
        "Verdict": "audit_verdicts",
        "audit": "auditing",
    },
)
