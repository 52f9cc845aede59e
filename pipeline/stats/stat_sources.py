"""What statistics are computed of: the logs of SPUs, or an archive."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.jobs.job_errors import JobError, WrongUsageError
from tailrace.pipeline.segments.query_planning import QueryPlan
from tailrace.pipeline.segments.segment_options import OptionError, read_options
from tailrace.pipeline.segments.segment_reading import SegmentError

from .stat_queries import entries_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ends = Mapping[str, Mapping[int, int]]
"""The offset after the last one that is read, by topic and partition."""


class StatSource(Protocol):
    """Where entries and records come from."""

    name: str
    is_archive: bool

    def use(self, spark: "SparkSession") -> None:
        """Prepares the session."""

    def entries(self, spark: "SparkSession") -> "DataFrame":
        """Returns a row for each batch of a log, or for each record of an archive."""
        ...

    def records(self, spark: "SparkSession", ends: Ends) -> "DataFrame":
        """Returns topic, partition, offset, key and value of each record before the ends."""
        ...


def source_of(*, segments: Sequence[str] = (), archive: str | None = None, topics: Sequence[str] = ()) -> StatSource:
    """Returns the source. Raises JobError if there is nothing that can be read."""
    if (archive is None) == (not segments):
        raise WrongUsageError("statistics need either segments, the data directories of SPUs, or an archive")
    return SegmentSource(segments, topics) if archive is None else ArchiveSource(archive, topics)


class SegmentSource:
    """The logs in data directories of SPUs, up to their high watermarks."""

    is_archive = False

    def __init__(self, paths: Sequence[str], topics: Sequence[str]) -> None:
        """Looks into the directories. Raises JobError."""
        self.name = ", ".join(paths)
        self._options = {
            # Executors may have another working directory.
            "paths": json.dumps([os.path.abspath(each) for each in paths]),
            "includeUnsealed": "true",
        }
        try:
            known = set(QueryPlan(read_options(self._options)).topics.values()) if not topics else set()
            # Without a choice, all topics are counted but internal ones, as everywhere.
            chosen = list(topics) or sorted(known - INTERNAL_TOPICS)
            if not chosen:
                raise WrongUsageError(f"there are only internal topics below {self.name}: name one to count it")
            self._options["topic"] = json.dumps(chosen)
            QueryPlan(read_options(self._options))
        except OptionError as error:
            raise WrongUsageError(str(error)) from error
        except SegmentError as error:
            raise JobError(str(error)) from error

    def use(self, spark: "SparkSession") -> None:
        from tailrace.pipeline.segments.segment_source import register

        register(spark)

    def entries(self, spark: "SparkSession") -> "DataFrame":
        return entries_of(spark, self._read(spark, headerOnly="true"), is_archive=False)

    def records(self, spark: "SparkSession", ends: Ends) -> "DataFrame":
        """Returns the records before the ends, so that records and batches are those of one moment."""
        return self._read(spark, columns="topic,partition,offset,key,value", endingOffsets=json.dumps(ends))

    def _read(self, spark: "SparkSession", **options: str) -> "DataFrame":
        return spark.read.format("tailrace-segments").options(**self._options, **options).load()


class ArchiveSource:
    """An archive as it is when it is first read."""

    is_archive = True

    def __init__(self, directory: str, topics: Sequence[str]) -> None:
        """Looks into the archive. Raises JobError."""
        self.name = directory
        self._topics = topics
        self._frame: DataFrame | None = None
        known = {each.topic for each in ArchiveFolder(directory).load().manifest.partitions}
        for topic in topics:
            if topic not in known:
                raise WrongUsageError(
                    f"the archive {directory} has no topic {topic}: it has {', '.join(sorted(known)) or 'none'}"
                )

    def use(self, spark: "SparkSession") -> None:
        from tailrace.pipeline.archive.chunks.archive_frames import read_archive

        self._frame = read_archive(spark, self.name, topics=self._topics or None)

    def entries(self, spark: "SparkSession") -> "DataFrame":
        return entries_of(spark, self._read(), is_archive=True)

    def records(self, spark: "SparkSession", ends: Ends) -> "DataFrame":
        """Returns the records of the frame, which names its files, so it has the same records as the entries."""
        return self._read().select("topic", "partition", "offset", "key", "value")

    def _read(self) -> "DataFrame":
        assert self._frame is not None, "the session is prepared"
        return self._frame
