"""The readers of the data source: they plan on the driver, and read on executors.

Both import this module, so it imports what only the driver has when it plans.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from tailrace.pipeline.jobs.worker_reuse import drop_zip_finders, freeze_modules

from .segment_options import SegmentOptions
from .segment_reading import SegmentRange
from .segment_rows import RowSettings, rows_of
from .stream_positions import Document, Key, Positions, document_of, latest_positions, limited_positions, positions_of

if TYPE_CHECKING:
    from .query_planning import QueryPlan
    from .walked_segments import WalkedSegments


class SegmentTask(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Sequence[SegmentRange]) -> None:
        self.values = [astuple(each) for each in ranges]

    @property
    def ranges(self) -> list[SegmentRange]:
        return [SegmentRange(*values) for values in self.values]


def settings_of(options: SegmentOptions) -> RowSettings:
    """Returns what executors need to know of the options."""
    return RowSettings(
        options.columns,
        options.header_only,
        options.verify_checksums,
        options.entry_types,
        options.as_of_ms,
        options.latest_by_key,
        options.fail_on_data_loss,
    )


def _plan(options: SegmentOptions, walked: "WalkedSegments | None" = None) -> "QueryPlan":
    from .query_planning import QueryPlan

    drop_zip_finders()
    return QueryPlan(options, walked=walked)


def _read(partition: InputPartition | None, options: SegmentOptions) -> Iterator[Any]:
    drop_zip_finders()
    if isinstance(partition, SegmentTask):  # Spark makes one task without a partition if there are no partitions
        yield from rows_of(partition.ranges, settings_of(options))
    freeze_modules()


class SegmentsReader(DataSourceReader):
    """Reads what the directories hold when the query is planned."""

    def __init__(self, options: SegmentOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [SegmentTask(ranges) for ranges in _plan(self._options).tasks()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(partition, self._options)


class SegmentsStreamReader(DataSourceStreamReader):
    """Reads what the directories get. A position is the next offset of each partition."""

    def __init__(self, options: SegmentOptions) -> None:
        self._options = options
        self._known: Positions = {}
        """The largest positions that were told to Spark."""
        self._walked: WalkedSegments | None = None
        """What the last plan has read of open segments. Executors do not have its module."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_walked": None}

    def _planned(self) -> "QueryPlan":
        from .walked_segments import WalkedSegments

        if self._walked is None:
            self._walked = WalkedSegments()
        return _plan(self._options, self._walked)

    def initialOffset(self) -> Document:  # noqa: N802
        return document_of(self._planned().first_positions())

    def latestOffset(self) -> Document:  # noqa: N802
        return document_of(self._latest(self._planned()))

    def _latest(self, plan: "QueryPlan") -> Positions:
        self._known = latest_positions(self._known, plan.extents)
        return self._known

    def latest_within(self, start: Mapping[str, Mapping[str, int]], *, is_limited: bool) -> Document:
        """Returns the end of the next batch after `start`, within the limits of the options if `is_limited`."""
        plan, begin = self._planned(), positions_of(start)
        latest: dict[Key, int] = latest_positions(begin, plan.extents)
        if is_limited and self._options.max_offsets_per_trigger is not None:
            latest = limited_positions(begin, latest, plan.extents, self._options.max_offsets_per_trigger)
        elif is_limited and self._options.max_bytes_per_trigger is not None:
            latest = plan.positions_within(begin, latest, self._options.max_bytes_per_trigger)
        return document_of(latest)

    def partitions(self, start: Document, end: Document) -> list[InputPartition]:
        if start == end:
            return []
        tasks = self._planned().tasks_between(positions_of(start), positions_of(end))
        return [SegmentTask(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(partition, self._options)
