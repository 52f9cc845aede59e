"""Stamps leader epochs on batches of a log: what recovery does to make them the new leader's batches.

The content of the batches stays the same. For clients, epochs begin where they did before: see `LeaderEpochs`.
"""

from collections.abc import Iterable
from functools import partial

import trio

from tailrace.runtime.descriptors import retry_when_out_of_files
from tailrace.storage.manifest.leader_epochs import EpochStart

from .log_manifest import disown_segments, note_epochs
from .log_parts import LogParts


async def restamp(log: LogParts, base: int, end: int, epoch: int) -> None:
    """Stamps `epoch` on the batches that begin in [base, end). The caller appends nothing meanwhile."""
    disk = log.disk
    async with disk.lock:
        disk.check()
        if base >= end or base >= log.log_end:
            return
        touched = log.segment_list.between(base, end)
        log.rewrites += 1
        log.log_epochs.on_stamped(min(end, log.log_end), epoch)
        await disown_segments(log, touched, base)
        disk.is_changed = True
        try:
            with trio.CancelScope(shield=True):
                for segment in touched:
                    stamping = partial(segment.restamp, base, end, epoch)
                    disk.unsynced_bytes += 4 * await retry_when_out_of_files(stamping)
        except OSError as error:
            disk.fail(f"{log.directory}: epochs could not be stamped", error)
            raise


async def expect_stamped(log: LogParts, end: int, epoch: int, starts: Iterable[EpochStart]) -> None:
    """Announces that batches below `end` with this epoch or an earlier one were stamped by another log's recovery.

    Epochs begin there with their bridges, and where `starts` says.
    """
    async with log.disk.lock:
        log.disk.check()
        if end > log.log_end:
            log.log_epochs.expect_stamped(log.log_end, end, epoch, starts)
            await note_epochs(log)
