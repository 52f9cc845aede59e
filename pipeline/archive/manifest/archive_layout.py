"""The names of files in an archive. Every name tells what the file holds, so that a person can find a record.

```
archive.json                       which archive this is
data/TOPIC/date=2026-11-28/…       Parquet files: topic id, partition, first and last offset, epoch, attempt
manifest/0000000001-5f3a9c01.json  commits, one file for each
manifest/head-0000000001.json      heads, if they live beside the files
```
"""

import re
from datetime import UTC, datetime
from uuid import UUID, uuid5

from msgspec import Struct

ARCHIVE = "archive.json"
DATA = "data"
MANIFEST = "manifest"
PARQUET = ".parquet"
TEMPORARY = ".tmp"
"""The end of the names of files that are being written."""
TOKEN_DIGITS = 16
WAVE_DIGITS = 8
"""How many digits of a token are those of a wave. So the files of a failed wave are certainly no others' files, and the
attempts of a wave, which have the rest, do not meet either."""

NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""The date of records without a time, or with one outside the calendar. Spark reads it as null."""

_OFFSET_DIGITS = 20
_SEQ_DIGITS = 10
_DAY_MS = 86_400_000
_DAYS_MIN, _DAYS_MAX = -719_162, 2_932_896
"""The days from 0001-01-01 to 9999-12-31, counted from 1970-01-01."""
_NAMESPACE = UUID("5f9c1a0e-7f43-4a58-8f0e-0d6c2f2b7a11")
_FILE = re.compile(
    r"(?P<topic_id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-p(?P<partition>\d{5,10})"
    r"-(?P<first>\d{20})-(?P<last>\d{20})-e(?P<epoch>-?\d+)-(?P<token>[0-9a-f]{8,16})\.parquet"
)
_TEMPORARY = re.compile(r"\.[0-9a-f-]{36}-p\d{5,10}-([0-9a-f]{8,16})-[\w-]+\.tmp")
_HEAD = re.compile(r"head-(\d{10})\.json")


class FileFacts(Struct, frozen=True):
    """What the name of a Parquet file says."""

    topic_id: str
    partition: int
    first: int
    last: int
    epoch: int
    """The leader epoch of the last record."""
    token: str
    """Hexadecimal digits of the attempt that wrote the file. No two attempts have the same."""

    @property
    def name(self) -> str:
        """The name of the file, without directories."""
        return (
            f"{self.topic_id}-p{self.partition:05d}-{self.first:0{_OFFSET_DIGITS}d}-{self.last:0{_OFFSET_DIGITS}d}"
            f"-e{self.epoch}-{self.token}{PARQUET}"
        )


def data_path(topic: str, date: str, name: str) -> str:
    """Returns the path of a data file below the archive."""
    return f"{DATA}/{topic}/date={date}/{name}"


def parse_file_name(name: str) -> FileFacts | None:
    """Reads the name of a data file; None for any other file."""
    found = _FILE.fullmatch(name)
    if found is None:
        return None
    numbers = {each: int(found[each]) for each in ("partition", "first", "last", "epoch")}
    return FileFacts(topic_id=found["topic_id"], token=found["token"], **numbers)


def temporary_name(topic_id: str, partition: int, token: str, date: str) -> str:
    """Returns the name of a data file that is being written. Spark ignores names with a dot at the beginning."""
    return f".{topic_id}-p{partition:05d}-{token}-{date}{TEMPORARY}"


def is_of_wave(name: str, wave: str) -> bool:
    """Returns whether an attempt of these tasks has written, or begun, the data file."""
    facts = parse_file_name(name)
    token = facts.token if facts is not None else (found[1] if (found := _TEMPORARY.fullmatch(name)) else "")
    return bool(token) and bool(wave) and token.startswith(wave)


def chunk_id(topic_id: str, partition: int, start: int, end: int, token: str) -> str:
    """Returns the id of a chunk, by which commits remove it."""
    return f"{topic_id}-p{partition:05d}-{start:0{_OFFSET_DIGITS}d}-{end:0{_OFFSET_DIGITS}d}-{token}"


def commit_name(seq: int, token: str) -> str:
    """Returns the name of a commit's document."""
    return f"{seq:0{_SEQ_DIGITS}d}-{token}.json"


def head_name(seq: int) -> str:
    """Returns the name of a head beside the files."""
    return f"head-{seq:0{_SEQ_DIGITS}d}.json"


def parse_head_name(name: str) -> int | None:
    """Returns the number of a head; None if the file is none."""
    found = _HEAD.fullmatch(name)
    return int(found[1]) if found is not None else None


def date_of_day(day: int) -> str:
    """Returns the date of a day, which is counted from 1970-01-01."""
    if not _DAYS_MIN <= day <= _DAYS_MAX:
        return NO_DATE
    return datetime.fromordinal(day - _DAYS_MIN + 1).replace(tzinfo=UTC).date().isoformat()


def date_of(timestamp_ms: int) -> str:
    """Returns the UTC date of a record's timestamp."""
    return NO_DATE if timestamp_ms == -1 else date_of_day(timestamp_ms // _DAY_MS)


def may_have_times(date: str, begin_ms: int | None, end_ms: int | None) -> bool:
    """Returns whether a file with this date may have records from a time on, and before another one; None for any.

    A file without a date may: its records have no time, or one outside the calendar.
    """
    first = NO_DATE if begin_ms is None else date_of(begin_ms)
    last = NO_DATE if end_ms is None else date_of(end_ms - 1)
    return date == NO_DATE or ((first == NO_DATE or first <= date) and (last == NO_DATE or date <= last))


def archived_topic_id(topic: str, topic_id: UUID) -> str:
    """Returns the id under which a topic is archived. Brokers before Kafka 2.8 have none, so the name counts."""
    return str(topic_id if topic_id.int else uuid5(_NAMESPACE, topic))
