"""Where a group would go on reading after a reset of its offsets: read from the command line or a file, and planned."""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from tailrace.cli.clients.group_facts import Progress
from tailrace.cli.clients.log_facts import LogEnds, Partition
from tailrace.cli.options.document_files import DocumentError, read_document

_CSV_LINE = re.compile(r"\s*([^,\s]+)\s*,\s*([0-9]{1,9})\s*,\s*([0-9]{1,18})\s*")
_OF_DOCUMENTS = ":[{"
"""Lines have none of these characters, for topics have none."""
_OFFSET_MAX = 2**63 - 1

Wish = Callable[[Progress], int | str]
"""The offset that is wished for a partition; a text stands for the end of the log, and says why it is that."""


class Move(Struct, frozen=True):
    """What a reset does to one partition."""

    partition: Partition
    before: int | None
    after: int
    log: LogEnds
    note: str = ""

    @property
    def lag_before(self) -> int | None:
        return None if self.before is None else max(self.log.end - self.before, 0)

    @property
    def lag_after(self) -> int:
        return self.log.end - self.after


def planned(progress: Progress, wish: Wish) -> Move:
    """Within the bounds of the log, which must be known; a note says so where that is not what was wished."""
    log = progress.log
    assert log is not None, "a partition without a leader is refused before"
    wished = wish(progress)
    if isinstance(wished, str):
        return Move(progress.partition, progress.committed, log.end, log, wished)
    after = min(max(wished, log.start), log.end)
    note = ""
    if wished < log.start:
        note = f"{wished} lies before the first record, {log.start}"
    if wished > log.end:
        note = f"{wished} lies beyond the end, {log.end}"
    return Move(progress.partition, progress.committed, after, log, note)


# wishes


def to_earliest(progress: Progress) -> int | str:
    return 0 if progress.log is None else progress.log.start


def to_latest(_: Progress) -> int | str:
    return ""


def to_current(progress: Progress) -> int | str:
    return "nothing was committed" if progress.committed is None else progress.committed


def to_offset(offset: int) -> Wish:
    return lambda _: offset


def shift_by(count: int) -> Wish:
    return lambda progress: "nothing was committed" if progress.committed is None else progress.committed + count


def to_found(offsets: Mapping[Partition, int]) -> Wish:
    """What was found for each by its time; -1 where no record is so late."""
    return lambda progress: offsets[progress.partition] if offsets[progress.partition] >= 0 else "no record is so late"


# files


def offsets_of_file(text: str, origin: str) -> dict[Partition, int]:
    """From what `group describe` and `group reset-offsets` print as documents, from a list of topic, partition and
    offset, or from lines of `topic,partition,offset`, as Kafka's own tool exports them."""
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
        raise DocumentError(f"{origin}: there is no offset in it")
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
    """Of one group, or the rows themselves."""
    if isinstance(document, list) and len(document) == 1 and isinstance(document[0], dict):
        document = document[0] if "partitions" in document[0] else document
    if isinstance(document, dict):
        document = document.get("partitions")
    return document if isinstance(document, list) else []


def _read_row(row: object, where: str) -> tuple[Partition, int | None]:
    """None: nothing was committed there."""
    if not isinstance(row, dict):
        raise DocumentError(f"{where}: it takes topic, partition and offset")
    if "partitions" in row:
        raise DocumentError(f"{where}: it is one of several groups; a file is for one of them")
    topic, number = row.get("topic"), row.get("partition")
    if not isinstance(topic, str) or not topic:
        raise DocumentError(f"{where}: topic: {topic!r:.300} is no name of a topic")
    if not isinstance(number, int) or not _is_whole(number, 2**31 - 1):
        raise DocumentError(f"{where}: partition: {number!r:.300} is no number of a partition")
    offset = row["offset"] if "offset" in row else row.get("committed")
    if offset is not None and not _is_whole(offset, _OFFSET_MAX):
        raise DocumentError(f"{where}: offset: {offset!r:.300} is no offset")
    return Partition(topic, number), offset


def _is_whole(number: object, largest: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= largest
