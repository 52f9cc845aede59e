"""Runs the function of a trigger on Spark: as a streaming query over its topic, or as a backfill over an archive.

The names here are imported when they are first used, so that a broker needs no PySpark.
"""

from typing import TYPE_CHECKING

from tailrace.runtime.embedded.lazy_names import lazy_names

if TYPE_CHECKING:
    from .backfill_run import backfill
    from .engine_results import EngineResult
    from .engine_run import EngineRun, run_trigger

__all__ = ["EngineResult", "EngineRun", "backfill", "run_trigger"]

__getattr__ = lazy_names(
    __name__,
    {
        "EngineResult": "engine_results",
        "EngineRun": "engine_run",
        "backfill": "backfill_run",
        "run_trigger": "engine_run",
    },
)
