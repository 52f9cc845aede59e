"""Copies topics to Parquet files exactly once, and proves it.

Executors get the pure modules and the tasks with the job, so these import neither Trio nor `storage`. The public names
are imported when they are first used.
"""

from typing import TYPE_CHECKING

from tailrace.runtime.embedded.lazy_names import lazy_names

if TYPE_CHECKING:
    from .archive_compaction import compact
    from .archive_frames import read_archive
    from .archive_manifest import ManifestError
    from .archive_rounds import ArchiveResult, archive
    from .archive_verification import VerifyResult, verify

__all__ = ["ArchiveResult", "ManifestError", "VerifyResult", "archive", "compact", "read_archive", "verify"]

__getattr__ = lazy_names(
    __name__,
    {
        "ArchiveResult": "archive_rounds",
        "ManifestError": "archive_manifest",
        "VerifyResult": "archive_verification",
        "archive": "archive_rounds",
        "compact": "archive_compaction",
        "read_archive": "archive_frames",
        "verify": "archive_verification",
    },
)
