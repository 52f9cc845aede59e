"""Copies topics to Parquet files exactly once, and proves it.

Executors get the pure modules and the tasks with the job, so these import neither Trio nor `storage`. The public names
are imported when they are first used.
"""

from typing import TYPE_CHECKING

from tailrace.runtime.embedded.lazy_names import lazy_names

if TYPE_CHECKING:
    from .chunks.archive_frames import read_archive
    from .manifest.archive_manifest import ManifestError
    from .proofs.archive_verification import VerifyResult, verify
    from .rounds.archive_rounds import ArchiveResult, archive
    from .upkeep.archive_compaction import compact

__all__ = ["ArchiveResult", "ManifestError", "VerifyResult", "archive", "compact", "read_archive", "verify"]

__getattr__ = lazy_names(
    __name__,
    {
        "ArchiveResult": "rounds.archive_rounds",
        "ManifestError": "manifest.archive_manifest",
        "VerifyResult": "proofs.archive_verification",
        "archive": "rounds.archive_rounds",
        "compact": "upkeep.archive_compaction",
        "read_archive": "chunks.archive_frames",
        "verify": "proofs.archive_verification",
    },
)
