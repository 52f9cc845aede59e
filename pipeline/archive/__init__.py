"""Copies topics to Parquet files exactly once, and proves it.

Executors get the pure modules and the tasks with the job, so these import neither Trio nor `storage`. The public names
are imported when they are first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .archive_compaction import compact
    from .archive_frames import read_archive
    from .archive_manifest import ManifestError
    from .archive_rounds import ArchiveResult, archive
    from .archive_verification import VerifyResult, verify

__all__ = ["ArchiveResult", "ManifestError", "VerifyResult", "archive", "compact", "read_archive", "verify"]

_MODULES = {
    "ArchiveResult": "archive_rounds",
    "ManifestError": "archive_manifest",
    "VerifyResult": "archive_verification",
    "archive": "archive_rounds",
    "compact": "archive_compaction",
    "read_archive": "archive_frames",
    "verify": "archive_verification",
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
