"""Keeps which chunks of a backfill into topics are done: one document for each, beside the others in a directory.

A document is complete as soon as it has its name. An unfinished chunk has none, so its events are handled again.
"""

import re

import msgspec

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.embedded.plain_files import make_directories, names_in, read_file, write_once

from .backfill_planning import BackfillError, BackfillId
from .engine_results import RangeResult

IDENTITY = "backfill.json"
_DONE = re.compile(r"(?P<topic_id>[0-9a-f-]{36})-p(?P<partition>\d+)-(?P<start>\d{20})-(?P<end>\d{20})\.json")


def begin_progress(directory: str, backfill: BackfillId) -> None:
    """Makes the directory that of a backfill. Raises BackfillError if it belongs to another one, and JobError."""
    try:
        make_directories(directory)
        path = f"{directory}/{IDENTITY}"
        if write_once(path, msgspec.json.encode(backfill)):
            return
        known = msgspec.json.decode(read_file(path), type=BackfillId)
    except (OSError, msgspec.MsgspecError) as error:
        raise JobError(f"{directory} cannot keep the progress of a backfill: {error}") from error
    if known != backfill:
        raise BackfillError(
            f"{directory} has the progress of another backfill, of {known.topic} for the group {known.group}: give "
            "this one a directory of its own"
        )


class ChunkProgress:
    """The progress in one partition."""

    def __init__(self, directory: str, topic_id: str, partition: int) -> None:
        self._directory = directory
        self._topic_id = topic_id
        self._partition = partition

    def position(self) -> int | None:
        """Returns the first offset that is not done; None if no chunk is done. Raises JobError."""
        try:
            found = [_DONE.fullmatch(name) for name in names_in(self._directory)]
        except OSError as error:
            raise JobError(f"{self._directory} cannot be read: {error.strerror}") from error
        ends = [
            int(each["end"])
            for each in found
            if each is not None and each["topic_id"] == self._topic_id and int(each["partition"]) == self._partition
        ]
        return max(ends, default=None)

    def done(self, start: int, end: int, result: RangeResult) -> None:
        """Notes that the offsets [start, end) are done. Raises JobError."""
        path = f"{self._directory}/{self._topic_id}-p{self._partition:05d}-{start:020d}-{end:020d}.json"
        try:
            write_once(path, msgspec.json.encode(result))
        except OSError as error:
            raise JobError(f"{path} cannot be written: {error.strerror}") from error
