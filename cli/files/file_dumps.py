"""Reads each kind of log file as rows: one for each batch, index entry, fact, producer or promise.

Rows are read one by one, so a file of any size is dumped in little memory. Damage is reported after the last row that
could be read.
"""

from array import array
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from tailrace.cli.output.printing import plain, shortened, time_text
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.control_batches import ControlKind
from tailrace.protocol.batches.record_batch import COMPRESSION_MASK, BatchHeader
from tailrace.protocol.batches.records import Record, read_records
from tailrace.protocol.batches.transaction_markers import MARKER_BYTES_MAX, is_marker, marker_of
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import NO_EPOCH
from tailrace.runtime.files import File, Files
from tailrace.storage.directory.checkpoints import HIGH_WATERMARKS_MAGIC, decode_high_watermarks
from tailrace.storage.directory.layout import MANIFEST, Kind, parse_file_name
from tailrace.storage.directory.promises import PROMISES_MAGIC, PromiseKind, damaged_position, read_promises
from tailrace.storage.indexes import offset_index
from tailrace.storage.indexes.offset_index import ENTRY_BYTES
from tailrace.storage.manifest import manifest
from tailrace.storage.producers.producer_state import NO_COORDINATOR, ProducerStates, is_snapshot
from tailrace.storage.segments.batch_scan import BatchScan, ScannedBatch
from tailrace.storage.segments.batch_walk import bridge_epoch_at, kind_at
from tailrace.storage.transactions.aborted_transactions import ABORTED_MAGIC, BEHIND_COPY, decode_aborted

Row = dict[str, Any]
"""The fields of a row, as they are printed in JSON."""

_SMALL_FILE_BYTES_MAX = 2**28
"""The largest size of a file that is read as a whole."""
_BATCH_BYTES_MAX = 2**28
"""The largest size of a batch whose records are shown."""
_PIECE_BYTES = 2**16
_CODECS = {int(codec): codec.name.lower() for codec in Compression}
_CONTROL_TYPES = {
    b"\x00\x00\x00\x00": "abort",
    b"\x00\x00\x00\x01": "commit",
    **{kind.to_bytes(4, "big"): kind.name.lower() for kind in ControlKind},
}


class NotALogFileError(Exception):
    """The file is not one of a log."""


class DamageError(Exception):
    """The file is damaged; raised after the last row, with a message that says what is wrong."""


class Column(Struct, frozen=True):
    """A column of the table."""

    title: str
    layout: str
    """The alignment and width, as for `format`."""
    text: Callable[[Row], object]
    """Returns the content of a row in this column."""


class Dump(Struct, frozen=True):
    """The content of a file."""

    columns: tuple[Column, ...]
    rows: Iterator[Row]


def dump_of(files: Files, path: str, *, with_records: bool) -> Dump:
    """Opens a file. Raises OSError if it cannot be read, and NotALogFileError if it is not a file of a log."""
    dump = _dump_of(files, path, with_records=with_records)
    return Dump(dump.columns, _as_far_as_readable(dump.rows))


def _as_far_as_readable(rows: Iterator[Row]) -> Iterator[Row]:
    try:
        yield from rows
    except OSError as error:
        raise DamageError(f"the rest cannot be read: {error.strerror or error}") from error


def _dump_of(files: Files, path: str, *, with_records: bool) -> Dump:
    name = path.rsplit("/", 1)[-1].removesuffix(".new")
    file = files.open(path)
    start = file.read_at(0, 17)
    segment = parse_file_name(name)
    if name.endswith(Kind.TIME_INDEX):
        return Dump(_TIME_COLUMNS, _times(file))
    if name.endswith(Kind.INDEX):
        return Dump(_OFFSET_COLUMNS, _offsets(file, segment.offset if segment is not None else 0))
    if file.size() <= _SMALL_FILE_BYTES_MAX:
        if name.endswith(MANIFEST):
            return Dump(_FACT_COLUMNS, _facts(file.read_at(0, file.size())))
        if name.endswith(Kind.PRODUCERS) or is_snapshot(start):
            return Dump(_PRODUCER_COLUMNS, _producers(file.read_at(0, file.size())))
        if name.endswith(Kind.ABORTED) or start.startswith(ABORTED_MAGIC):
            return Dump(_ABORTED_COLUMNS, _aborted(file.read_at(0, file.size())))
        if name.endswith("high-watermarks") or start.startswith(HIGH_WATERMARKS_MAGIC):
            return Dump(_HIGH_WATERMARK_COLUMNS, _high_watermarks(file.read_at(0, file.size())))
        if name.endswith("promises") or start.startswith(PROMISES_MAGIC):
            return Dump(_PROMISE_COLUMNS, _promises(file.read_at(0, file.size())))
    # This test comes last, because other files may by chance have the magic of a batch at this position.
    if name.endswith((Kind.LOG, Kind.CLEANED_LOG)) or start[16:] == b"\x02":
        return Dump(_BATCH_COLUMNS, _batches(file, with_records=with_records))
    raise NotALogFileError


# .log


def _batches(file: File, *, with_records: bool) -> Iterator[Row]:
    scan = BatchScan(file, file.size())
    wrong_count, first_wrong = 0, 0
    unreadable = None
    for batch in scan:
        row = _batch_row(batch) | _of_recovery(file, batch) | _of_transaction(file, batch)
        if not batch.checksum_matches:
            first_wrong = first_wrong if wrong_count else batch.position
            wrong_count += 1
        if with_records:
            try:
                row["records"] = _records(file, batch)
            except KafkaError as error:
                row["records_error"] = error.message
                unreadable = unreadable or f"the batch at position {batch.position}: {error.message}"
        yield row
    sentences = []
    if wrong_count:
        count = "one batch" if wrong_count == 1 else f"{wrong_count} batches"
        sentences.append(f"the checksum of {count} does not match, first at position {first_wrong}")
    elif unreadable is not None:
        sentences.append(unreadable)
    if scan.failure is not None:
        sentences.append(f"no batch can be read from position {scan.position} of {scan.size} on: {scan.failure}")
    if sentences:
        raise DamageError("; ".join(sentences))


def _batch_row(batch: ScannedBatch) -> Row:
    header = batch.header
    codec = header.attributes & COMPRESSION_MASK
    return {
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "leader_epoch": header.leader_epoch,
        "record_count": header.record_count,
        "compression": _CODECS.get(codec, str(codec)),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "timestamp_type": "append" if header.is_log_append_time else "create",
        "has_delete_horizon": header.has_delete_horizon,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "size": header.size,
        "crc": header.crc,
        "crc_ok": batch.checksum_matches,
    }


def _of_recovery(file: File, batch: ScannedBatch) -> Row:
    """Returns the fields of a batch that recovery wrote.

    The epoch that begins with a bridge does not change when another leader stamps its epoch into the batch.
    """
    kind, epoch = kind_at(file, batch.position, batch.header), None
    if kind is ControlKind.BRIDGE:
        epoch = bridge_epoch_at(file, batch.position, batch.header)
    return {"written_by_recovery": kind.name.lower() if kind is not None else None, "bridge_epoch": epoch}


def _of_transaction(file: File, batch: ScannedBatch) -> Row:
    """Returns the fields of a marker: how it ends the transaction of its producer, and which coordinator decided so."""
    marker = None
    if is_marker(batch.header):
        start = file.read_at(batch.position, min(batch.header.size, MARKER_BYTES_MAX))
        marker = marker_of(batch.header, start)
    if marker is None:
        return {"marker": None, "coordinator_epoch": None}
    return {"marker": "commit" if marker.is_commit else "abort", "coordinator_epoch": marker.coordinator_epoch}


def _batch_flags(row: Row) -> str:
    written = row["written_by_recovery"]
    marker = row["marker"]
    flags = {
        "hole": written == "hole",
        f"bridge:{row['bridge_epoch']}": written == "bridge",
        f"{marker}:{row['coordinator_epoch']}": marker is not None,
        "control": row["is_control"] and written is None and marker is None,
        "transactional": row["is_transactional"],
        "append-time": row["timestamp_type"] == "append",
        "delete-horizon": row["has_delete_horizon"],
    }
    return ",".join(name for name, is_set in flags.items() if is_set) or "-"


def _batch_producer(row: Row) -> str:
    if row["producer_id"] < 0:
        return "-"
    sequence = "-" if row["base_sequence"] < 0 else row["base_sequence"]
    return f"{row['producer_id']}/{row['producer_epoch']}/{sequence}"


_BATCH_COLUMNS = (
    Column("position", ">10", lambda row: row["position"]),
    Column("base", ">10", lambda row: row["base_offset"]),
    Column("last", ">10", lambda row: row["last_offset"]),
    Column("epoch", ">5", lambda row: row["leader_epoch"]),
    Column("records", ">7", lambda row: row["record_count"]),
    Column("codec", "<6", lambda row: row["compression"]),
    Column("producer/epoch/seq", "<18", _batch_producer),
    Column("first time", "<24", lambda row: time_text(row["base_timestamp"])),
    Column("last time", "<24", lambda row: time_text(row["max_timestamp"])),
    Column("bytes", ">9", lambda row: row["size"]),
    Column("crc", "<5", lambda row: "ok" if row["crc_ok"] else "WRONG"),
    Column("flags", "", _batch_flags),
)


def _records(file: File, batch: ScannedBatch) -> list[Row]:
    if batch.header.size > _BATCH_BYTES_MAX:
        return []
    records = read_records(file.read_at(batch.position, batch.header.size))
    return [_record_row(record, batch.header) for record in records]


def _record_row(record: Record, header: BatchHeader) -> Row:
    row: Row = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": [{"name": name, "value": value} for name, value in record.headers],
    }
    if header.is_control:
        row["control_type"] = _CONTROL_TYPES.get(record.key or b"", "unknown")
    return row


def record_line(record: Row) -> str:
    """Formats a record for the table."""
    parts = [f"offset {record['offset']}", time_text(record["timestamp"])]
    if "control_type" in record:
        parts.append(f"control {record['control_type']}")
    parts += [f"key {shortened(record['key'])}", f"value {shortened(record['value'])}"]
    parts += [f"header {plain(each['name'])}={shortened(each['value'])}" for each in record["headers"]]
    return "  ".join(parts)


def bytes_in_json(data: bytes) -> object:
    """Returns a string if the bytes are UTF-8, and otherwise `{"base64": …}`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


# .index and .timeindex


def _offsets(file: File, base: int) -> Iterator[Row]:
    before = -1
    falls_at = None
    for number, entry in _entries(file, "Q"):
        if falls_at is None and entry <= before:
            falls_at = number
        before = entry
        yield {
            "entry": number,
            "offset": base + offset_index.relative_offset_of(entry),
            "position": offset_index.position_of(entry),
        }
    _check_entries(file, falls_at)


def _times(file: File) -> Iterator[Row]:
    before = -1
    falls_at = None
    for number, entry in _entries(file, "q"):
        if falls_at is None and entry < before:
            falls_at = number
        before = entry
        yield {"entry": number, "max_timestamp_before": entry}
    _check_entries(file, falls_at)


def _entries(file: File, typecode: str) -> Iterator[tuple[int, int]]:
    for position in range(0, file.size(), _PIECE_BYTES):
        piece = file.read_at(position, _PIECE_BYTES)
        entries = array(typecode, piece[: len(piece) // ENTRY_BYTES * ENTRY_BYTES])
        yield from enumerate(entries, position // ENTRY_BYTES)


def _check_entries(file: File, falls_at: int | None) -> None:
    if falls_at is not None:
        raise DamageError(f"entry {falls_at} is not larger than the one before it")
    if file.size() % ENTRY_BYTES:
        raise DamageError(f"the file ends within entry {file.size() // ENTRY_BYTES}")


_OFFSET_COLUMNS = (
    Column("entry", ">8", lambda row: row["entry"]),
    Column("offset", ">12", lambda row: row["offset"]),
    Column("position", ">10", lambda row: row["position"]),
)
_TIME_COLUMNS = (
    Column("entry", ">8", lambda row: row["entry"]),
    Column("largest time before", "", lambda row: time_text(row["max_timestamp_before"])),
)


# manifest


def _facts(data: bytes) -> Iterator[Row]:
    wrong = []
    for position, line in manifest.lines_of(data):
        fact = manifest.fact_of(line)
        if fact is None:
            wrong.append(position)
        yield {"position": position, "crc_ok": fact is not None, "fact": fact, "text": line[9:]}
    if wrong:
        count = "one line" if len(wrong) == 1 else f"{len(wrong)} lines"
        raise DamageError(f"the checksum of {count} does not match, first at position {wrong[0]}")
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        raise DamageError(f"the last line, at position {whole}, is incomplete")


_FACT_COLUMNS = (
    Column("position", ">10", lambda row: row["position"]),
    Column("crc", "<5", lambda row: "ok" if row["crc_ok"] else "WRONG"),
    Column("fact", "", lambda row: plain(row["text"].decode(errors="backslashreplace"))),
)


# <end>.producers


def _producers(data: bytes) -> Iterator[Row]:
    states = ProducerStates.restore(data)
    if states is None:
        raise DamageError("the checksum of the file does not match, so its content is not shown")
    for producer_id, producer in states:
        yield {
            "producer_id": producer_id,
            "producer_epoch": producer.epoch,
            "newest_timestamp": producer.newest_ms,
            "coordinator_epoch": None if producer.coordinator_epoch == NO_COORDINATOR else producer.coordinator_epoch,
            "open_transaction": states.open_transaction(producer_id),
            "batches": [
                {
                    "base_sequence": batch.base_sequence,
                    "last_sequence": batch.last_sequence,
                    "base_offset": batch.base_offset,
                    "last_offset": batch.last_offset,
                }
                for batch in producer.batches
            ],
        }


def _last_batches(row: Row) -> str:
    return " ".join(
        f"{batch['base_sequence']}-{batch['last_sequence']}@{batch['base_offset']}" for batch in row["batches"]
    )


_PRODUCER_COLUMNS = (
    Column("producer", ">20", lambda row: row["producer_id"]),
    Column("epoch", ">5", lambda row: row["producer_epoch"]),
    Column("newest time", "<24", lambda row: time_text(row["newest_timestamp"])),
    Column("open from", ">10", lambda row: "-" if row["open_transaction"] is None else row["open_transaction"]),
    Column("last batches (sequences@offset)", "", _last_batches),
)


# <base>.aborted


def _aborted(data: bytes) -> Iterator[Row]:
    transactions = decode_aborted(data)
    if transactions is None:
        raise DamageError("the checksum of the file does not match, so its content is not shown")
    for each in transactions:
        yield {
            "producer_id": each.producer_id,
            "first_offset": each.first_offset,
            "marker_offset": None if each.last_offset == BEHIND_COPY else each.last_offset,
            "stable_offset": each.stable_offset,
        }


_ABORTED_COLUMNS = (
    Column("producer", ">20", lambda row: row["producer_id"]),
    Column("first offset", ">20", lambda row: row["first_offset"]),
    Column("marker", ">20", lambda row: "behind" if row["marker_offset"] is None else row["marker_offset"]),
    Column("stable offset", ">20", lambda row: row["stable_offset"]),
)


# high-watermarks


def _high_watermarks(data: bytes) -> Iterator[Row]:
    high_watermarks = decode_high_watermarks(data)
    if high_watermarks is None:
        raise DamageError("the checksum of the file does not match, so its content is not shown")
    for (topic_id, partition), saved in sorted(high_watermarks.items()):
        yield {
            "topic_id": str(topic_id),
            "partition": partition,
            "high_watermark": saved.value,
            "epoch": None if saved.epoch == NO_EPOCH else saved.epoch,
        }


_HIGH_WATERMARK_COLUMNS = (
    Column("topic id", "<36", lambda row: row["topic_id"]),
    Column("partition", ">9", lambda row: row["partition"]),
    Column("high watermark", ">20", lambda row: row["high_watermark"]),
    Column("epoch", ">5", lambda row: row["epoch"]),
)


# promises


def _promises(data: bytes) -> Iterator[Row]:
    for position, said, (topic_id, partition), epoch in read_promises(data):
        of_one = said not in (PromiseKind.ALL_IN_DOUBT, PromiseKind.DISK_FAILED)
        yield {
            "position": position,
            "says": _SAID[said],
            "topic_id": str(topic_id) if of_one else None,
            "partition": partition if of_one else None,
            "epoch": epoch if said is PromiseKind.PROMISED else None,
        }
    damaged = damaged_position(data)
    if damaged is not None:
        raise DamageError(f"the entry at position {damaged} of {len(data)} is incomplete or corrupt")


_SAID = {
    PromiseKind.PROMISED: "promised",
    PromiseKind.SURE: "no longer in doubt",
    PromiseKind.ALL_IN_DOUBT: "all in doubt",
    PromiseKind.IN_DOUBT: "in doubt",
    PromiseKind.DISK_FAILED: "the disk failed",
}


_PROMISE_COLUMNS = (
    Column("position", ">10", lambda row: row["position"]),
    Column("says", "<18", lambda row: row["says"]),
    Column("topic id", "<36", lambda row: row["topic_id"]),
    Column("partition", ">9", lambda row: row["partition"]),
    Column("epoch", ">10", lambda row: row["epoch"]),
)
