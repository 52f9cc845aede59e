"""Follows streaming queries by their checkpoints, without a connection to Spark: any language, any release.

A checkpoint has the file `metadata` with the query's id, and the directories `offsets` and `commits` with a file for
each batch. A batch is done when its commit is there; its entry in `offsets` says where the query is then.
"""

import os
from collections.abc import Sequence

import trio

from tailrace.runtime.files import Files

from .query_progress import ProgressError, QueryEvent, QueryProgress, Sight, read_offset_log, read_query_id


class CheckpointQueries:
    """The queries of some checkpoints."""

    def __init__(self, files: Files, directories: Sequence[str]) -> None:
        self._files = files
        self._directories = directories

    async def look(self) -> Sight:
        """Returns where each query is. A query whose first batch is not done is nowhere yet."""
        await trio.lowlevel.checkpoint()
        events: list[QueryEvent] = []
        problems: list[str] = []
        for directory in self._directories:
            try:
                progress = self.progress_of(directory)
            except ProgressError as error:
                problems.append(str(error))
                continue
            if progress is not None:
                events.append(progress)
        return Sight(tuple(events), tuple(problems))

    def progress_of(self, directory: str) -> QueryProgress | None:
        """Returns where the query of a checkpoint is; None before its first batch. Raises ProgressError."""
        try:
            query_id = read_query_id(self._read(directory, "metadata"), os.path.join(directory, "metadata"))
        except FileNotFoundError as error:
            raise ProgressError(
                f"{directory} is no checkpoint of a streaming query: it has no file metadata. Give the directory of "
                "its checkpointLocation"
            ) from error
        except OSError as error:
            raise ProgressError(f"{directory} cannot be read: {error.strerror}") from error
        batches = [int(each) for each in self._files.list(os.path.join(directory, "commits")) if each.isdecimal()]
        if not batches:
            return None
        entry = os.path.join("offsets", str(max(batches)))
        try:
            text = self._read(directory, entry).decode(errors="replace")
        except OSError as error:
            raise ProgressError(f"{directory}/{entry} cannot be read: {error.strerror}") from error
        positions = read_offset_log(text, os.path.join(directory, entry))
        name = os.path.basename(os.path.normpath(directory))
        return QueryProgress(query_id, "", name, max(batches), positions)

    def _read(self, directory: str, name: str) -> bytes:
        return self._files.read(os.path.join(directory, name))
