"""Shows the progress of streaming queries to lag tools: `attach(spark, group="…")`.

The progress becomes committed offsets of a consumer group, and metrics. The names here are imported when they are first
used, so that a broker needs no PySpark.
"""

from typing import TYPE_CHECKING

from tailrace.runtime.embedded.lazy_names import lazy_names

if TYPE_CHECKING:
    from .attachment import Attachment, attach
    from .lag_rows import LagRow

__all__ = ["Attachment", "LagRow", "attach"]

__getattr__ = lazy_names(__name__, {"Attachment": "attachment", "LagRow": "lag_rows", "attach": "attachment"})
