"""The columns of the data source: their names and types, and which of them a query gets.

The first columns have the names and types of Spark's own Kafka source, so that a query can change its source.
"""

from collections.abc import Sequence
from types import MappingProxyType

RECORD_COLUMNS = MappingProxyType(
    {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        "headers": "array<struct<key:string,value:binary>>",
        "epoch": "int",
        "entryType": "string",
        "producerId": "bigint",
        "producerEpoch": "smallint",
        "sequence": "int",
        "batchCrc": "bigint",
    }
)
"""The columns of records, and their types in Spark's language."""

BATCH_COLUMNS = MappingProxyType(
    {
        "topic": "string",
        "topicId": "string",
        "partition": "int",
        "offset": "bigint",
        "lastOffset": "bigint",
        "records": "int",
        "timestamp": "timestamp",
        "maxTimestamp": "timestamp",
        "timestampType": "int",
        "epoch": "int",
        "entryType": "string",
        "producerId": "bigint",
        "producerEpoch": "smallint",
        "sequence": "int",
        "compression": "string",
        "bytes": "int",
        "batchCrc": "bigint",
        "crcMatches": "boolean",
        "directory": "string",
        "segment": "bigint",
        "position": "bigint",
    }
)
"""The columns of batches, which a header-only query gets, and their types in Spark's language."""

HEADERS = "headers"
"""The column that a query gets only if it asks for it, as from Spark's Kafka source."""

EVENT, HOLE, BRIDGE, MARKER = "event", "hole", "bridge", "marker"
ENTRY_TYPES = (EVENT, HOLE, BRIDGE, MARKER)
"""The types of entries: records, what recovery wrote, and the markers of transactions."""


def default_columns(*, header_only: bool, include_headers: bool) -> tuple[str, ...]:
    """Returns the columns of a query that names none."""
    if header_only:
        return tuple(BATCH_COLUMNS)
    return tuple(name for name in RECORD_COLUMNS if include_headers or name != HEADERS)


def schema_text(columns: Sequence[str], *, header_only: bool) -> str:
    """Returns the schema in Spark's language."""
    types = BATCH_COLUMNS if header_only else RECORD_COLUMNS
    return ", ".join(f"{name} {types[name]}" for name in columns)
