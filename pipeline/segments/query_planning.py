"""Plans a query on the driver: which ranges its tasks read, and how far a stream can read.

Executors do not have the modules that this one imports.
"""

from collections.abc import Mapping

from tailrace.runtime.files import Files, RealFiles

from .copy_choice import Extent
from .log_copies import CopyFinder
from .range_groups import grouped
from .range_planning import PartitionPlan
from .segment_options import OptionError, SegmentOptions
from .segment_reading import SegmentRange
from .stream_positions import Key, Positions, begin_of, check_order
from .walked_segments import WalkedSegments

_HEADERS_FACTOR = 4
"""How many times as many bytes of segments a task can read if it reads only the headers of batches."""


class QueryPlan:
    """What the directories hold now, for one query."""

    def __init__(
        self, options: SegmentOptions, files: Files | None = None, walked: WalkedSegments | None = None
    ) -> None:
        """Looks into the directories. Raises OptionError and SegmentError.

        `walked`: what the last plan of the same query has read of open segments.
        """
        walked = WalkedSegments() if walked is None else walked
        walked.begin_plan()
        files = RealFiles(read_only=True) if files is None else files
        self._options = options
        reads_headers = options.header_only and not options.verify_checksums
        self._task_bytes = options.max_split_bytes * (_HEADERS_FACTOR if reads_headers else 1)
        try:
            copies = CopyFinder(files, options).copies()
            self._plans = {key: PartitionPlan(files, found, options, walked) for key, found in copies.items()}
        except OSError as error:
            path = error.filename or ", ".join(options.paths)
            raise OptionError(f"{path} cannot be read: {error.strerror or error}") from error
        self._names = {key: f"{found[0].topic}/{found[0].partition}" for key, found in copies.items()}

    def tasks(self) -> list[tuple[SegmentRange, ...]]:
        """Returns the ranges of each task of a batch query. Raises SegmentError and OptionError."""
        self._check_offsets()
        found = [plan.ranges() for plan in self._plans.values()]
        if self._options.latest_by_key:  # the last record of a key may be in any segment of its partition
            return [tuple(ranges) for ranges in found if ranges]
        return list(grouped((each for ranges in found for each in ranges), self._task_bytes))

    @property
    def extents(self) -> Mapping[Key, Extent]:
        """The first and last offset of each partition."""
        return {key: plan.extent for key, plan in self._plans.items()}

    @property
    def topics(self) -> Mapping[Key, str]:
        """The topic of each partition."""
        return {key: name.rpartition("/")[0] for key, name in self._names.items()}

    def offsets_at(self, timestamp_ms: int) -> Positions:
        """Returns the first offset of each partition that is not older than a time; its end if there is none."""
        return {key: plan.offset_at(timestamp_ms) for key, plan in self._plans.items()}

    def first_positions(self) -> Positions:
        """Returns where a new stream begins. Raises OptionError."""
        self._check_offsets()
        return {key: plan.first_offset() for key, plan in self._plans.items()}

    def _check_offsets(self) -> None:
        """Raises OptionError if the offsets in the options are those of other topics."""
        options, known = self._options, set(self.topics.values())
        for name, offsets in (("startingOffsets", options.starting_offsets), ("endingOffsets", options.ending_offsets)):
            for topic in offsets if isinstance(offsets, Mapping) else ():
                if topic not in known:
                    raise OptionError(f"{name} names the topic {topic}, and the query reads {', '.join(sorted(known))}")

    def tasks_between(self, start: Mapping[Key, int], end: Mapping[Key, int]) -> list[tuple[SegmentRange, ...]]:
        """Returns the ranges of each task of a stream's batch. Raises SegmentError."""
        extents = self.extents
        found: list[SegmentRange] = []
        for key, to in end.items():
            begin = begin_of(key, start, extents)
            check_order(begin, to, self._names.get(key, f"partition {key[1]} of the topic {key[0]}"))
            if begin < to and key in self._plans:
                found += self._plans[key].between(begin, to)
            elif begin < to and self._options.fail_on_data_loss:
                check_order(to, begin, f"partition {key[1]} of the topic {key[0]}")
        return list(grouped(found, self._task_bytes))

    def positions_within(self, start: Mapping[Key, int], latest: Mapping[Key, int], bytes_max: int) -> Positions:
        """Returns the positions after about this many bytes, and after at least one range of a segment."""
        extents = self.extents
        ends = {key: begin_of(key, start, extents) for key in latest}
        waiting = {
            key: self._plans[key].between(ends[key], to)
            for key, to in latest.items()
            if key in self._plans and ends[key] < to
        }
        total, is_first = 0, True
        while waiting:
            for key in list(waiting):
                if not waiting[key]:
                    del waiting[key]
                    ends[key] = latest[key]
                    continue
                following = waiting[key].pop(0)
                total += following.bytes_estimate
                if total > bytes_max and not is_first:
                    return ends
                ends[key], is_first = following.end, False
        return ends
