"""Runs the function of a trigger on Spark: as a streaming query over its topic, or as a backfill over an archive.

The names here are imported when they are first used, so that a broker needs no PySpark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .backfill_run import backfill
    from .engine_results import EngineResult
    from .engine_run import EngineRun, run_trigger

__all__ = ["EngineResult", "EngineRun", "backfill", "run_trigger"]

_MODULES = {
    "EngineResult": "engine_results",
    "EngineRun": "engine_run",
    "backfill": "backfill_run",
    "run_trigger": "engine_run",
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
