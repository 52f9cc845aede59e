"""Tables of an archive, in the formats Delta and Iceberg: `delta_table("./archive", "./table")`.

May import `archive`. They need no Spark. The names here are imported when they are first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .archive_tables import TableResult
    from .table_updates import delta_table, iceberg_table

__all__ = ["TableResult", "delta_table", "iceberg_table"]

_MODULES = {"TableResult": "archive_tables", "delta_table": "table_updates", "iceberg_table": "table_updates"}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
