"""The data source `tailrace-segments`: reads the segments of SPUs and shelves from their files, without the SPUs.

The driver plans with the readers of `storage`. Executors get the rest with the job, so that part imports neither Trio
nor `storage`. The names here are imported when they are first used.
"""

from typing import TYPE_CHECKING

from tailrace.runtime.embedded.lazy_names import lazy_names

if TYPE_CHECKING:
    from .segment_source import latest_by_key, register

__all__ = ["latest_by_key", "register"]

__getattr__ = lazy_names(__name__, {"latest_by_key": "segment_source", "register": "segment_source"})
