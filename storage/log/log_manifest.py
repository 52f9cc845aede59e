"""What the manifest of an open log must say, now and before a change that overrides it."""

from collections.abc import Sequence

from tailrace.runtime.descriptors import retry_call_when_out_of_files
from tailrace.storage.manifest.manifest import Manifest, SegmentFacts
from tailrace.storage.segments.segment_list import Segment

from .log_parts import LogParts


def manifest_content(log: LogParts, closed: SegmentFacts | None = None) -> Manifest:
    """Returns the manifest of the log as it is. `closed` is the open segment at a clean close."""
    return Manifest(
        log_start=log.log_start,
        epochs=list(log.log_epochs.starts),
        sealed={segment.base: segment.facts for segment in log.segment_list.sealed if segment.is_synced},
        closed=closed,
        stamped_end=log.log_epochs.stamped_end,
        stamped_epoch=log.log_epochs.stamped_epoch,
        flushed_end=log.disk.synced_end,
        compactions=log.compaction_history,
    )


async def note_epochs(log: LogParts) -> None:
    """Brings the epochs to the disk before the batches, which alone would tell wrong epochs after a power failure."""
    note = await retry_call_when_out_of_files(lambda: log.disk.note(log.log_epochs.lines()))
    await log.disk.sync_note(note)


async def disown_segments(log: LogParts, segments: Sequence[Segment], base: int) -> None:
    """Removes these segments and those after them from the manifest, before a byte of them changes from `base` on.

    The manifest then also states the epochs, which the batches will no longer show.
    """
    disk = log.disk
    names_closed = disk.closed is not None and base < disk.closed.end
    followers = [segment for segment in log.segment_list.sealed if segment.base >= segments[0].base]
    was_named = any(segment.is_synced for segment in followers)
    for segment in followers:
        segment.is_synced = False
    if was_named or names_closed:
        await disk.replace_manifest(manifest_content(log))
    else:
        await note_epochs(log)
