"""The options of the data source. Each is a text, as Spark hands it over, and its name is case-insensitive."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from msgspec import Struct

from tailrace.runtime.wall_clock import utc_ms

from .segment_columns import BATCH_COLUMNS, ENTRY_TYPES, EVENT, HEADERS, RECORD_COLUMNS, default_columns

EARLIEST, LATEST = "earliest", "latest"
SPLIT_BYTES = 128 * 2**20
"""The default of `maxSplitBytes`: about how many bytes of segments one task reads, as for files in Spark."""
_SPLIT_BYTES_MIN = 4096

_NAMES = (
    "path", "paths", "topic", "topicId", "partitions", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "asOf", "latestByKey", "headerOnly", "committedOnly", "includeUnsealed", "includeHeaders",
    "entryTypes", "columns", "copies", "verifyChecksums", "maxSplitBytes", "failOnDataLoss", "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
)  # fmt: skip
_KNOWN = {name.lower(): name for name in _NAMES}

_Value = TypeVar("_Value")

Offsets = int | Mapping[str, Mapping[int, int]] | None
"""An offset for all partitions, offsets by topic and partition, or None for the first or last there is."""
_FIRST, _LAST = -2, -1
"""The numbers by which JSON of Spark's Kafka source says "earliest" and "latest"."""


class OptionError(Exception):
    """An option is wrong. The message is for people."""

    def __reduce__(self) -> tuple[type["OptionError"], tuple[str]]:
        return type(self), (str(self),)


class SegmentOptions(Struct, frozen=True):
    """What a query asks for."""

    paths: tuple[str, ...]
    """Data directories of SPUs, directories that contain them, or directories of single replicas or shelves."""
    topics: tuple[str, ...] = ()
    """The topics to read; empty for all."""
    topic_id: UUID | None = None
    partitions: tuple[int, ...] = ()
    """The partitions to read; empty for all."""
    starting_offsets: Offsets = None
    starts_at_end: bool = False
    """Whether a new stream begins with what comes after its start."""
    ending_offsets: Offsets = None
    starting_timestamp_ms: int | None = None
    """The time from which on records are read: from the first record at or after it, as Kafka finds it."""
    ending_timestamp_ms: int | None = None
    """The time up to which records are read: up to the first record at or after it, which is not read."""
    as_of_ms: int | None = None
    """The time after which no record may be."""
    latest_by_key: bool = False
    header_only: bool = False
    committed_only: bool = True
    include_unsealed: bool = False
    entry_types: tuple[str, ...] = (EVENT,)
    columns: tuple[str, ...] = ()
    all_copies: bool = False
    """Whether every replica is read. Otherwise one replica of each partition is."""
    verify_checksums: bool = True
    max_split_bytes: int = SPLIT_BYTES
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None


def read_options(given: Mapping[str, str], *, is_streaming: bool | None = None) -> SegmentOptions:
    """Reads the options. Raises OptionError.

    `is_streaming`: None if that is unknown, as when Spark asks for the schema only.
    """
    values = {}
    for name, text in given.items():
        if name.lower() not in _KNOWN:
            raise OptionError(f"tailrace-segments has no option {name}: it has {', '.join(_NAMES)}")
        values[_KNOWN[name.lower()]] = text
    starts_at_end = is_streaming is not False and values.get("startingOffsets", "").strip().lower() == LATEST
    if starts_at_end:
        values["startingOffsets"] = EARLIEST
    reader = _Reader(values)
    header_only = reader.flag("headerOnly", False)
    include_headers = reader.flag("includeHeaders", False)
    columns = reader.columns(header_only=header_only, include_headers=include_headers)
    trigger_bytes = reader.number("maxBytesPerTrigger", 1)
    options = SegmentOptions(
        paths=reader.paths(),
        topics=reader.names("topic"),
        topic_id=reader.value("topicId", "a topic id, such as 7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b", UUID),
        partitions=reader.partitions(),
        starting_offsets=reader.offsets("startingOffsets", EARLIEST),
        starts_at_end=starts_at_end,
        ending_offsets=reader.offsets("endingOffsets", LATEST),
        starting_timestamp_ms=reader.time("startingTimestamp"),
        ending_timestamp_ms=reader.time("endingTimestamp"),
        as_of_ms=reader.time("asOf"),
        latest_by_key=reader.flag("latestByKey", False),
        header_only=header_only,
        committed_only=reader.flag("committedOnly", True),
        include_unsealed=reader.flag("includeUnsealed", False),
        entry_types=reader.entry_types(ENTRY_TYPES if header_only else (EVENT,)),
        columns=columns,
        all_copies=reader.choice("copies", ("one", "all")) == "all",
        verify_checksums=reader.flag("verifyChecksums", not header_only),
        max_split_bytes=reader.number("maxSplitBytes", _SPLIT_BYTES_MIN)
        or min(SPLIT_BYTES, trigger_bytes or SPLIT_BYTES),
        fail_on_data_loss=reader.flag("failOnDataLoss", True),
        max_offsets_per_trigger=reader.number("maxOffsetsPerTrigger", 1),
        max_bytes_per_trigger=trigger_bytes,
    )
    _check_combinations(options, values, is_streaming=is_streaming)
    return options


def _check_combinations(options: SegmentOptions, values: Mapping[str, str], *, is_streaming: bool | None) -> None:
    """Refuses options that have no effect together."""
    refusals = [
        ("startingOffsets", "startingTimestamp", "both say where to begin"),
        ("endingOffsets", "endingTimestamp", "both say where to end"),
        ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "both limit a trigger"),
    ]
    if options.header_only:
        refusals += [
            ("headerOnly", "asOf", "times of single records are not read"),
            ("headerOnly", "latestByKey", "keys are not read"),
            ("headerOnly", "includeHeaders", "records are not read"),
        ]
    if options.latest_by_key and options.all_copies:
        refusals.append(("latestByKey", "copies", "the copies have the same keys"))
    if is_streaming:
        for name in ("latestByKey", "copies", "endingOffsets", "endingTimestamp", "asOf"):
            if name in values:
                raise OptionError(f"{name} has no meaning in a stream: use spark.read, or remove it")
    elif is_streaming is False:
        for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
            if name in values:
                raise OptionError(f"{name} is for streams only: use spark.readStream, or remove it")
    for name, other, reason in refusals:
        if name in values and other in values:
            raise OptionError(f"{name} and {other} do not go together, because {reason}: remove one of them")


class _Reader:
    """Reads single options."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def paths(self) -> tuple[str, ...]:
        given = self.names("path")
        if (text := self._values.get("paths")) is not None:
            given += tuple(_json_list("paths", text))
        if not given:
            raise OptionError(
                "path is missing: name the data directories of SPUs, separated by commas, such as "
                '.load("/var/lib/tailrace/spu-1,/var/lib/tailrace/spu-2")'
            )
        return tuple(_without_scheme(path) for path in given)

    def names(self, name: str) -> tuple[str, ...]:
        text = self._values.get(name, "")
        if text.startswith("["):
            return tuple(_json_list(name, text))
        return tuple(part for part in (part.strip() for part in text.split(",")) if part)

    def partitions(self) -> tuple[int, ...]:
        found: set[int] = set()
        for part in self.names("partitions"):
            match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
            if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
                raise _wrong("partitions", part, "partitions and ranges, such as 0,3-7")
            first, last = int(match[1]), int(match[2] or match[1])
            if last >= 2**31:
                raise _wrong("partitions", part, "numbers below 2147483648")
            if last - first > 100_000:
                raise _wrong("partitions", part, "at most 100000 partitions")
            found.update(range(first, last + 1))
        return tuple(sorted(found))

    def offsets(self, name: str, default: str) -> Offsets:
        text = self._values.get(name, default).strip()
        allowed = f'{default}, an offset, or offsets such as {{"events":{{"0":23,"1":-2}}}}'
        if text.lower() == default:
            return None
        if text.isdecimal():
            return int(text)
        try:
            found = json.loads(text)
            return {
                str(topic): {int(partition): _offset(offset, default) for partition, offset in by_partition.items()}
                for topic, by_partition in found.items()
            }
        except (ValueError, AttributeError, TypeError):
            raise _wrong(name, text, allowed) from None

    def time(self, name: str) -> int | None:
        return self.value(name, "milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z", _time_ms)

    def number(self, name: str, least: int) -> int | None:
        number = self.value(name, f"a whole number of at least {least}", int)
        if number is not None and number < least:
            raise _wrong(name, str(number), f"a whole number of at least {least}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        text = self._values.get(name, default or choices[0]).strip().lower()
        if text not in choices:
            raise _wrong(name, text, " or ".join(choices))
        return text

    def value(self, name: str, allowed: str, read: Callable[[str], _Value]) -> _Value | None:
        text = self._values.get(name)
        if text is None:
            return None
        try:
            return read(text.strip())
        except ValueError:
            raise _wrong(name, text, allowed) from None

    def entry_types(self, default: tuple[str, ...]) -> tuple[str, ...]:
        names = self.names("entryTypes")
        if names == ("all",):
            return ENTRY_TYPES
        for name in names:
            if name not in ENTRY_TYPES:
                raise _wrong("entryTypes", name, f"all, or some of {', '.join(ENTRY_TYPES)}")
        return names or default

    def columns(self, *, header_only: bool, include_headers: bool) -> tuple[str, ...]:
        known = BATCH_COLUMNS if header_only else RECORD_COLUMNS
        by_lower = {name.lower(): name for name in known}
        names = []
        for name in self.names("columns"):
            if name.lower() not in by_lower:
                raise _wrong("columns", name, f"some of {', '.join(known)}")
            names.append(by_lower[name.lower()])
        if len(set(names)) < len(names):
            raise OptionError(f"columns names a column twice: {', '.join(names)}")
        if include_headers and names and HEADERS not in names:
            raise OptionError("includeHeaders has no effect together with columns: add headers to columns")
        return tuple(names) or default_columns(header_only=header_only, include_headers=include_headers)


def _offset(offset: object, default: str) -> int:
    """Checks an offset in JSON. The number that says the default stands for the first or last offset."""
    number = int(str(offset))
    if number < 0 and number != (_FIRST if default == EARLIEST else _LAST):
        raise ValueError
    return number


def _json_list(name: str, text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _wrong(name, text, 'a list of texts, such as ["a","b"]')
    return found


def _without_scheme(path: str) -> str:
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    elif "://" in path:
        raise OptionError(f"{path} is not a local path: mount it, and name the mount point")
    return path.rstrip("/") or "/"


def _time_ms(text: str) -> int:
    if text.isdecimal():
        return int(text)
    return utc_ms(datetime.fromisoformat(text))


def _wrong(name: str, given: str, allowed: str) -> OptionError:
    return OptionError(f"{name} cannot be {given!r}: it takes {allowed}")


def offset_for(offsets: Offsets, topic: str, partition: int) -> int | None:
    """Returns the given offset of a partition; None for the first or last there is."""
    if offsets is None or isinstance(offsets, int):
        return offsets
    offset: Any = offsets.get(topic, {}).get(partition)
    return None if offset is None or offset < 0 else int(offset)
