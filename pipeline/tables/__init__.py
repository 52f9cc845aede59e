"""Tables of an archive, in the formats Delta and Iceberg: `delta_table("./archive", "./table")`.

May import `archive`. They need no Spark. The names here are imported when they are first used.
"""

from typing import TYPE_CHECKING

from tailrace.runtime.embedded.lazy_names import lazy_names

if TYPE_CHECKING:
    from .archive_tables import TableResult
    from .table_updates import delta_table, iceberg_table

__all__ = ["TableResult", "delta_table", "iceberg_table"]

__getattr__ = lazy_names(
    __name__, {"TableResult": "archive_tables", "delta_table": "table_updates", "iceberg_table": "table_updates"}
)
