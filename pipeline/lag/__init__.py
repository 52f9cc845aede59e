"""Shows the progress of streaming queries to lag tools: `attach(spark, group="…")`.

The progress becomes committed offsets of a consumer group, and metrics. The names here are imported when they are first
used, so that a broker needs no PySpark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .attachment import Attachment, attach
    from .lag_rows import LagRow

__all__ = ["Attachment", "LagRow", "attach"]

_MODULES = {"Attachment": "attachment", "LagRow": "lag_rows", "attach": "attachment"}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
