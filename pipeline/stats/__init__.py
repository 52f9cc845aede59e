"""Statistics of streams with Spark: key skew, sizes, hot partitions, what compaction would save, and duplicates.

May import `segments` and `jobs`. The names here are imported when they are first used.
"""

from typing import TYPE_CHECKING

from tailrace.runtime.embedded.lazy_names import lazy_names

if TYPE_CHECKING:
    from .stat_collection import stats
    from .stat_page import page_of
    from .stat_rows import StatsResult

__all__ = ["StatsResult", "page_of", "stats"]

__getattr__ = lazy_names(__name__, {"StatsResult": "stat_rows", "page_of": "stat_page", "stats": "stat_collection"})
