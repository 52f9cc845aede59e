"""What Spark runs in its tasks: it handles the rows of one shard, and reports.

Executors import this module before it is known whether they have the packages that tasks need. So it imports little.
"""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from tailrace.pipeline.jobs.shipped_code import check_required

if TYPE_CHECKING:
    from .range_work import RangeWork
    from .row_batches import SparkRow

REQUIRED = ("trio", "structlog")
"""The packages that a task imports beside those of every job."""


def handle_rows(work: "RangeWork", rows: Iterator["SparkRow"]) -> Iterator[bytes]:
    """Handles the rows of one partition of a micro-batch, and yields the encoded result."""
    first = next(rows, None)
    if first is None:
        return
    check_required(*REQUIRED)
    import msgspec

    from .range_handling import handle_now

    yield msgspec.msgpack.encode(handle_now(work, first[2], first[3], chain([first], rows)))
