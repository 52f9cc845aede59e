"""Statistics of streams with Spark: key skew, sizes, hot partitions, what compaction would save, and duplicates.

May import `segments` and `jobs`. The names here are imported when they are first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .stat_collection import stats
    from .stat_page import page_of
    from .stat_rows import StatsResult

__all__ = ["StatsResult", "page_of", "stats"]

_MODULES = {"StatsResult": "stat_rows", "page_of": "stat_page", "stats": "stat_collection"}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
