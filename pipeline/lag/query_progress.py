"""Reads where a streaming query is from the documents that Spark writes: progress events, and the log of offsets.

Spark writes the offsets of a Kafka source as `{"topic": {"partition": next offset}}`. Sources of other kinds have other
offsets, and are skipped.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tailrace.client.log_facts import Partition

OFFSET_LOG_VERSION = "v1"
NAMED_OFFSET_LOG_VERSION = "v2"
"""The format of queries whose sources have names, from Spark 4.2 on: each line begins with the name of its source."""
_NO_OFFSET = "-"
"""What the log of offsets has for a source that has not read anything."""
_KAFKA_SOURCES = ("KafkaV2[", "KafkaSource[")
"""How Spark describes its Kafka source: the current one, and the one of old releases."""

_SEGMENTS = re.compile(r'\{"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}": ')
"""How the log of offsets has our own source `tailrace-segments`. Its positions have ids of topics, and PySpark writes a
space after a colon."""

_Offsets = dict[str, dict[int, int]]


class ProgressError(Exception):
    """A document that is not what Spark writes; the message is one sentence."""


class QueryProgress(Struct, frozen=True):
    """Where a query was when one of its batches was done."""

    query_id: str
    """The id that the checkpoint keeps."""
    run_id: str
    """The id that each start of the query gets."""
    name: str
    """The name that the user gave the query; empty if it has none."""
    batch_id: int
    positions: Mapping[Partition, int]
    """The offset that the query reads next from each partition of its Kafka sources."""


class QueryStarted(Struct, frozen=True):
    """A query that runs and may not have reported progress yet."""

    query_id: str
    run_id: str
    name: str


class QueryEnded(Struct, frozen=True):
    """A run of a query that has ended."""

    query_id: str
    run_id: str


class QueryReads(Struct, frozen=True):
    """Where a query is within a trigger that still runs."""

    query_id: str
    run_id: str
    batch_id: int
    positions: Mapping[Partition, int]


QueryEvent = QueryStarted | QueryProgress | QueryReads | QueryEnded


class Sight(Struct, frozen=True):
    """What one look at Spark has shown."""

    events: tuple[QueryEvent, ...] = ()
    """The events in the order in which they happened."""
    problems: tuple[str, ...] = ()
    """What could not be read, as sentences."""
    failure: Exception | None = None
    """Why Spark could not say which queries run, as after the end of its session; None if it could."""
    brokers: str = ""
    """The brokers that a new query with a Kafka source names, as Spark's option has them; empty if none does."""


class _Source(Struct, rename="camel"):
    description: str
    end_offset: Any = None


class _Document(Struct, rename="camel"):
    id: str
    run_id: str
    batch_id: int
    sources: list[_Source]
    name: str | None = None


def read_progress(document: str | bytes) -> QueryProgress:
    """Reads the JSON of a StreamingQueryProgress. Raises ProgressError."""
    try:
        found = msgspec.json.decode(document, type=_Document)
    except msgspec.DecodeError as error:
        raise ProgressError(f"Spark reported progress that cannot be read: {error}") from error
    sources = [each for each in found.sources if each.description.startswith(_KAFKA_SOURCES)]
    positions = _lowest(map(_source_offsets, sources))
    return QueryProgress(found.id, found.run_id, found.name or "", found.batch_id, positions)


def read_offset_log(text: str, path: str) -> dict[Partition, int]:
    """Reads an entry of the log of offsets in a checkpoint: a version, metadata, and one line for each source.

    Raises ProgressError.
    """
    version, *lines = text.splitlines() or [""]
    if version not in (OFFSET_LOG_VERSION, NAMED_OFFSET_LOG_VERSION):
        known = f"{OFFSET_LOG_VERSION} or {NAMED_OFFSET_LOG_VERSION}"
        raise ProgressError(f"{path} is not a log of offsets in the format {known} of Spark")
    offsets = lines[1:]
    if version == NAMED_OFFSET_LOG_VERSION:
        offsets = [each.partition(":")[2] for each in offsets]
    return _lowest(map(_line_offsets, offsets))


def read_query_id(document: str | bytes, path: str) -> str:
    """Reads the file `metadata` of a checkpoint, which has the id of the query. Raises ProgressError."""
    try:
        return msgspec.json.decode(document, type=dict[str, str])["id"]
    except (msgspec.DecodeError, KeyError) as error:
        raise ProgressError(f"{path} is not the metadata of a checkpoint of Spark") from error


def _source_offsets(source: _Source) -> _Offsets:
    """Returns the offsets of a Kafka source. Spark writes them as an object, and PySpark's classes as text."""
    value = source.end_offset
    try:
        if isinstance(value, str):
            value = None if value in ("null", "None", "") else msgspec.json.decode(value)
        return msgspec.convert(value or {}, _Offsets, strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ProgressError(f"the source {source.description} has offsets that cannot be read: {error}") from error


def _line_offsets(line: str) -> _Offsets:
    """Returns the offsets of a source in the log of offsets; none if it is no Kafka source."""
    if line == _NO_OFFSET or _SEGMENTS.match(line):
        return {}
    try:
        return msgspec.convert(msgspec.json.decode(line), _Offsets, strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}


def _lowest(sources: Iterable[_Offsets]) -> dict[Partition, int]:
    """Merges the offsets of sources. A query that reads a partition twice is where its slower source is."""
    found: dict[Partition, int] = {}
    for offsets in sources:
        for topic, by_number in offsets.items():
            for number, offset in by_number.items():
                partition = Partition(topic, number)
                if offset >= 0:
                    found[partition] = min(offset, found.get(partition, offset))
    return found
