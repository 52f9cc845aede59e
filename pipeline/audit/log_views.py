"""What the directory of a replica or a shelf holds at one moment, by its manifest and its file names.

The driver and executors read views, so nothing here needs Trio.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.runtime.embedded.plain_files import names_in, read_file
from tailrace.storage.manifest import manifest
from tailrace.storage.manifest.compaction_history import compacted_up_to
from tailrace.storage.manifest.manifest import Manifest, SegmentFacts

MANIFEST = "manifest"
LOG, CLEANED_LOG, INDEX = ".log", ".log.cleaned", ".index"
_OFFSET_DIGITS = 20


class ViewError(Exception):
    """A directory that this version of Tailrace cannot read; the message is one sentence."""


class ViewedSegment(Struct, frozen=True):
    """A segment of a log."""

    base: int
    end: int | None
    """The offset after its last record; None if it is unknown."""
    facts: SegmentFacts | None
    """What the manifest says about the sealed segment; None if it says nothing."""


class LogView(Struct, frozen=True):
    """What a log holds."""

    directory: str
    log_start: int
    is_start_certain: bool
    """Whether the manifest proves that records before the log start were deleted and not lost."""
    segments: tuple[ViewedSegment, ...]
    sealed_end: int
    """The end of the last segment that the manifest describes."""
    compacted_end: int
    """The offset below which the log was compacted."""
    stamped_end: int
    stamped_epoch: int
    epoch_starts: tuple[tuple[int, int], ...]
    damaged_lines: int

    def between(self, start: int, end: int) -> "LogView":
        """Returns the part of the view that a reader of the offsets in [start, end) needs."""
        segments = [each for each in self.segments if each.base < end and (each.end is None or each.end > start)]
        starts = [each for each in self.epoch_starts if start <= each[1] < end]
        return replace(self, segments=tuple(segments), epoch_starts=tuple(starts))


def view_of(
    directory: str,
    *,
    read: Callable[[str], bytes | None] | None = None,
    list_names: Callable[[str], list[str]] = names_in,
) -> LogView:
    """Looks into the directory. Raises ViewError."""
    # The manifest is read first: what it names is on the disk then, or was replaced by a later manifest.
    content = (read or _content)(f"{directory}/{MANIFEST}")
    known = manifest.decode(content) if content is not None else Manifest(has_start=False)
    if known.version != manifest.VERSION:
        raise ViewError(
            f"{directory}/{MANIFEST} has format version {known.version}, and this Tailrace knows {manifest.VERSION}: "
            "use the version of Tailrace that wrote it"
        )
    try:
        names = list_names(directory)
    except FileNotFoundError:
        raise ViewError(
            f"{directory} does not exist on this machine: mount it at the same path on the driver and all executors"
        ) from None
    segments = _segments(known, [base for name in names if (base := base_of(name)) is not None])
    starts = {(each.epoch, each.start) for each in known.epochs}
    starts |= {(each.epoch, each.start) for facts in known.sealed.values() for each in facts.epoch_starts or ()}
    return LogView(
        directory,
        known.log_start,
        known.is_start_certain,
        tuple(segments),
        max((facts.end for facts in known.sealed.values()), default=known.log_start),
        compacted_up_to(known.compactions),
        known.stamped_end,
        known.stamped_epoch,
        tuple(sorted(starts, key=lambda each: each[1])),
        known.damaged_lines,
    )


def _segments(known: Manifest, bases: list[int]) -> list[ViewedSegment]:
    """Returns the segments in order, without those that compaction has merged into others and not removed yet."""
    sealed = sorted(known.sealed.values(), key=lambda each: each.base)
    others = [base for base in bases if not _is_inside(sealed, base)]
    found = [ViewedSegment(facts.base, facts.end, facts) for facts in sealed if facts.end > known.log_start]
    starts = sorted([*others, *(facts.base for facts in sealed)])
    for base in others:
        at = bisect_right(starts, base)
        following = starts[at] if at < len(starts) else None
        if following is None or following > known.log_start:
            found.append(ViewedSegment(base, following, None))
    return sorted(found, key=lambda each: each.base)


def _is_inside(sealed: Sequence[SegmentFacts], base: int) -> bool:
    """Returns whether the offset is in one of these segments."""
    at = bisect_right(sealed, base, key=lambda each: each.base) - 1
    return at >= 0 and base < sealed[at].end


def base_of(name: str) -> int | None:
    """Returns the base offset in the name of a segment's `.log`; None for any other name."""
    digits = name.removesuffix(LOG)
    return int(digits) if digits != name and len(digits) == _OFFSET_DIGITS and digits.isdecimal() else None


def segment_path(directory: str, base: int, suffix: str = LOG) -> str:
    return f"{directory}/{base:0{_OFFSET_DIGITS}}{suffix}"


def _content(path: str) -> bytes | None:
    """Returns the content of a file; None if it is missing."""
    try:
        return read_file(path)
    except FileNotFoundError:
        return None
