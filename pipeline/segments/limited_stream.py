"""The stream reader with limits for each trigger, which Spark supports from PySpark 4.2 on."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found,unused-ignore]
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from .segment_readers import SegmentsStreamReader
from .stream_positions import Document, document_of, positions_of


class LimitedStreamReader(SegmentsStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc,unused-ignore]
    """Reads at most as much in each trigger as the options say."""

    _target: Document | None = None
    """Where `Trigger.AvailableNow` ends; None for other triggers."""

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self.latestOffset()

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Mapping[str, int]] | None = None, limit: Any = None
    ) -> Document:
        if start is None:
            return super().latestOffset()
        found = positions_of(self.latest_within(start, is_limited=not isinstance(limit, ReadAllAvailable)))
        if self._target is not None:
            begin, target = positions_of(start), positions_of(self._target)
            found = {
                key: max(begin.get(key, 0), min(offset, target.get(key, 0)))
                for key, offset in found.items()
                if key in begin or key in target
            }
        return document_of(found)
