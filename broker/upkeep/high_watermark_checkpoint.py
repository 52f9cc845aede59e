"""Writes the high watermarks of all replicas to one file, so that a restart knows what was committed."""

from collections.abc import Mapping

import trio

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.runtime.files import Files
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.storage.directory.checkpoints import ReplicaKey, SavedHighWatermark, save_high_watermarks
from tailrace.storage.directory.layout import high_watermarks_path
from tailrace.storage.directory.shared_writes import SharedWrites

from .closed_replicas import ClosedReplicas

CHECKPOINT_SECONDS = 5


class HighWatermarkCheckpoint:
    """The high watermarks of all replicas as they are on the disk."""

    def __init__(
        self,
        data_directory: str,
        files: Files,
        replicas: ReplicaRegistry,
        closed: ClosedReplicas,
        found: Mapping[ReplicaKey, SavedHighWatermark],
        logger: FilteringBoundLogger,
    ) -> None:
        """`found` is what the previous process wrote."""
        self._data_directory = data_directory
        self._files = files
        self._replicas = replicas
        self._closed = closed
        self._saved = found
        self._is_missing = not files.exists(high_watermarks_path(data_directory))
        """Whether there is no file yet. Readers of the files need one, even if it has no replica."""
        self._writes = SharedWrites(self._write_if_changed)
        self._logger = logger

    async def run(self) -> None:
        """Writes the high watermarks every few seconds, until cancelled; at once if there is no file yet."""
        if self._is_missing:
            await self.save()
        while True:
            await trio.sleep(CHECKPOINT_SECONDS)
            await self.save()

    async def save(self) -> None:
        """Writes the high watermarks, and logs a failure."""
        try:
            await self.write()
        except OSError as error:
            self._logger.error("high_watermarks_not_saved", reason=str(error))

    async def write(self) -> None:
        """Returns when the high watermarks of now, or later ones, are on the disk. Raises OSError.

        One write serves all callers that wait for it: hundreds of replicas may call at once.
        """
        await self._writes.ensure_written()

    def saved(self, key: ReplicaKey) -> SavedHighWatermark | None:
        """Returns the high watermark that is on the disk for a replica."""
        return self._saved.get(key)

    def exceeds(self, replica: Replica) -> bool:
        """Whether the saved high watermark is larger than the replica's.

        The end of the log was lost since. The next start would apply the saved value to the records that have replaced
        it.
        """
        saved = self._saved.get(replica.key)
        return saved is not None and saved.value > replica.high_watermark

    async def _write_if_changed(self) -> None:
        now = {**self._closed.high_watermarks, **{each.key: each.saved_high_watermark for each in self._replicas}}
        if now != self._saved or self._is_missing:
            await save_high_watermarks(self._files, self._data_directory, now)
            self._saved = now
            self._is_missing = False
