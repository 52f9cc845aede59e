"""Plans a backfill: which chunks of an archive each task handles, in their order. Pure."""

from collections.abc import Iterable
from uuid import UUID, uuid5

from msgspec import Struct

from tailrace.pipeline.archive.manifest.archive_layout import may_have_times
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk, Manifest, PartitionKey
from tailrace.pipeline.jobs.job_errors import WrongUsageError

from .range_work import RangeWork

_NAMESPACE = UUID("c0a7f2b4-2e5b-4f0e-9b61-7c3f4a1de6d2")


class BackfillError(WrongUsageError):
    """A backfill that cannot be done. The message is one sentence."""


class Window(Struct, frozen=True):
    """The times of the records that are handled, in milliseconds since 1970."""

    begin_ms: int | None = None
    end_ms: int | None = None
    """The time after the last one."""

    @property
    def is_everything(self) -> bool:
        return self.begin_ms is None and self.end_ms is None

    def may_have(self, date: str) -> bool:
        """Returns whether records with this date may be in the window."""
        return may_have_times(date, self.begin_ms, self.end_ms)


class BackfillId(Struct, frozen=True):
    """What makes two runs the same backfill, so that the second one continues the first."""

    archive: str
    """The id of the archive."""
    topic: str
    group: str
    window: Window

    def progress_id(self, topic_id: str) -> str:
        """Returns an id for the progress in a topic."""
        text = f"{self.archive} {topic_id} {self.group} {self.window.begin_ms} {self.window.end_ms}"
        return str(uuid5(_NAMESPACE, text))


class BackfillTask(Struct, frozen=True):
    """The chunks of one partition, which one task handles in their order."""

    work: RangeWork
    archive: str
    """The directory of the archive."""
    id: BackfillId
    topic_id: str
    partition: int
    chunks: tuple[Chunk, ...]
    output_archive: str | None = None
    """The directory of the archive into which output and dead letters go; None for topics."""
    progress: str | None = None
    """The directory of the progress if output goes to topics at least once. With exactly-once, a group has it."""

    @property
    def window(self) -> Window:
        return self.id.window


def chunks_to_handle(manifest: Manifest, topic: str, window: Window) -> dict[PartitionKey, tuple[Chunk, ...]]:
    """Returns the chunks of a topic that a window needs, by partition.

    Chunks before and after the window are left out, and those in between are not, because progress has no gaps. Raises
    BackfillError if the archive has no such topic.
    """
    of_topic = [each for each in manifest.partitions if each.topic == topic]
    if not of_topic:
        names = sorted({each.topic for each in manifest.partitions})
        raise BackfillError(f"the archive has no topic {topic}; it has {', '.join(names) or 'none'}")
    found: dict[PartitionKey, tuple[Chunk, ...]] = {}
    for partition in of_topic:
        chunks = manifest.chunks_of(*partition.key)
        needed = [place for place, chunk in enumerate(chunks) if _is_needed(chunk, window)]
        if needed:
            found[partition.key] = tuple(chunks[needed[0] : needed[-1] + 1])
    return found


def _is_needed(chunk: Chunk, window: Window) -> bool:
    return window.is_everything or any(window.may_have(file.date) for file in chunk.files)


def ranges_left(chunks: Iterable[Chunk], position: int | None) -> list[tuple[Chunk, int]]:
    """Returns the chunks that are not done, each with the first offset to handle. `position` is the first offset that
    is not done, or None if nothing is.

    The archive may have been compacted since the last run, so that a chunk is done in part.
    """
    return [
        (chunk, chunk.start if position is None else max(chunk.start, position))
        for chunk in chunks
        if position is None or chunk.end > position
    ]
