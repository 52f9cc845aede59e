"""Plans a reset of a group's offsets: the new offset of each partition, from options or a file."""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from tailrace.cli.options.document_files import DocumentError, read_document
from tailrace.client.group_facts import Progress
from tailrace.client.log_facts import LogEnds, Partition

_CSV_LINE = re.compile(r"\s*([^,\s]+)\s*,\s*([0-9]{1,9})\s*,\s*([0-9]{1,18})\s*")
_OF_DOCUMENTS = ":[{"
"""The characters that occur in documents, but not in lines, because names of topics do not have them."""
_OFFSET_MAX = 2**63 - 1

Wish = Callable[[Progress], int | str]
"""Returns the wanted offset of a partition, or a text that says why it is the end of the log."""


class Move(Struct, frozen=True):
    """The change of the committed offset of one partition."""

    partition: Partition
    before: int | None
    after: int
    log: LogEnds
    note: str = ""

    @property
    def lag_before(self) -> int | None:
        """The lag before the reset; None if nothing was committed."""
        return None if self.before is None else max(self.log.end - self.before, 0)

    @property
    def lag_after(self) -> int:
        """The lag after the reset."""
        return self.log.end - self.after


def planned(progress: Progress, wish: Wish) -> Move:
    """Plans the new offset of a partition; it lies within the log, and a note says if it was moved."""
    log = progress.log
    assert log is not None, "a partition without a leader was refused before"
    wished = wish(progress)
    if isinstance(wished, str):
        return Move(progress.partition, progress.committed, log.end, log, wished)
    after = min(max(wished, log.start), log.end)
    note = ""
    if wished < log.start:
        note = f"{wished} is before the first record, {log.start}"
    if wished > log.end:
        note = f"{wished} is beyond the log end, {log.end}"
    return Move(progress.partition, progress.committed, after, log, note)


# wishes


def to_earliest(progress: Progress) -> int | str:
    """Wishes for the log start."""
    return 0 if progress.log is None else progress.log.start


def to_latest(_: Progress) -> int | str:
    """Wishes for the log end."""
    return ""


def to_current(progress: Progress) -> int | str:
    """Wishes for the committed offset."""
    return "nothing was committed" if progress.committed is None else progress.committed


def to_offset(offset: int) -> Wish:
    """Wishes for one offset in every partition."""
    return lambda _: offset


def shift_by(count: int) -> Wish:
    """Wishes for the committed offset plus `count`."""
    return lambda progress: "nothing was committed" if progress.committed is None else progress.committed + count


def to_found(offsets: Mapping[Partition, int]) -> Wish:
    """Takes the offset of each partition from `offsets`; -1 means that no record is late enough."""
    return lambda progress: offsets[progress.partition] if offsets[progress.partition] >= 0 else "all records are older"


# files


def offsets_of_file(text: str, origin: str) -> dict[Partition, int]:
    """Reads offsets from the text of a file.

    The file may contain what `group describe` or `group reset-offsets` prints as a document, a list of topic, partition
    and offset, or lines of `topic,partition,offset` as Kafka's own tool exports them.
    """
    is_document = not text.strip() or any(character in text for character in _OF_DOCUMENTS)
    rows = _rows(read_document(text, origin)) if is_document else _rows_of_lines(text, origin)
    offsets: dict[Partition, int] = {}
    for number, row in enumerate(rows, 1):
        partition, offset = _read_row(row, f"{origin}: row {number}")
        if offset is None:
            continue
        if partition in offsets:
            raise DocumentError(f"{origin}: row {number}: {partition} occurs twice")
        offsets[partition] = offset
    if not offsets:
        raise DocumentError(f"{origin}: the file has no offset")
    return offsets


def _rows_of_lines(text: str, origin: str) -> list[object]:
    rows: list[object] = []
    for number, line in enumerate(text.splitlines(), 1):
        found = _CSV_LINE.fullmatch(line)
        if found is not None:
            rows.append({"topic": found[1].strip('"'), "partition": int(found[2]), "offset": int(found[3])})
        elif line.strip():
            raise DocumentError(f"{origin}: line {number}: {line!r:.300} is not topic,partition,offset")
    return rows


def _rows(document: object) -> list[object]:
    """Returns the rows of a document, which describes one group or is a list of rows."""
    if isinstance(document, list) and len(document) == 1 and isinstance(document[0], dict):
        document = document[0] if "partitions" in document[0] else document
    if isinstance(document, dict):
        document = document.get("partitions")
    return document if isinstance(document, list) else []


def _read_row(row: object, where: str) -> tuple[Partition, int | None]:
    """Reads a row; the offset is None if nothing was committed."""
    if not isinstance(row, dict):
        raise DocumentError(f"{where}: expected topic, partition and offset")
    if "partitions" in row:
        raise DocumentError(f"{where}: the file has several groups; it must have only one")
    topic, number = row.get("topic"), row.get("partition")
    if not isinstance(topic, str) or not topic:
        raise DocumentError(f"{where}: topic: {topic!r:.300} is not the name of a topic")
    if not isinstance(number, int) or not _is_whole(number, 2**31 - 1):
        raise DocumentError(f"{where}: partition: {number!r:.300} is not the number of a partition")
    offset = row["offset"] if "offset" in row else row.get("committed")
    if offset is not None and not _is_whole(offset, _OFFSET_MAX):
        raise DocumentError(f"{where}: offset: {offset!r:.300} is not an offset")
    return Partition(topic, number), offset


def _is_whole(number: object, largest: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= largest
