"""Decodes the values of records into a column, by a schema that the user gives.

A record batch gets the columns `data` and `dataError` beside those that it has. The raw value stays, so nothing is lost
if a value does not fit: its `data` is null, and its `dataError` says why.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

import pyarrow as pa
from msgspec import Struct

from tailrace.pipeline.segments.arrow_rows import ArrowBatch
from tailrace.runtime.embedded.plain_files import read_file

from .value_errors import SchemaError, UnfitError

DATA, DATA_ERROR = "data", "dataError"
VALUE_COLUMNS = (DATA, DATA_ERROR)
JSON, AVRO, CONFLUENT_AVRO = "json", "avro", "confluent-avro"
SCHEMA_FORMS = "json:FILE, avro:FILE or confluent-avro:ID=FILE[,ID=FILE]"
"""What a user may give."""
_ERROR_CHARACTERS_MAX = 300


class AvroSchema(Struct, frozen=True):
    """A schema of Avro, and the number that a registry has given it."""

    content: str
    id: int | None = None


class ValueSchema(Struct, frozen=True):
    """The schema of values, as tasks get it."""

    kind: str
    json: str = ""
    """The schema of Spark for JSON, in Spark's JSON."""
    avro: tuple[AvroSchema, ...] = ()
    """The schemas of Avro. The last one says what the column is like; the others are those of older values."""


class Decoder(Protocol):
    """Decodes single values."""

    type: Any
    """The Arrow type of the column."""

    def decode(self, value: bytes) -> object:
        """Returns what Arrow makes a struct of. Raises UnfitError."""


class DecodedBatch(Struct):
    """A record batch with the columns `data` and `dataError`."""

    batch: ArrowBatch
    unfit: int
    """How many values do not fit."""


class ValueDecoder:
    """Decodes the values of record batches."""

    def __init__(self, schema: ValueSchema) -> None:
        """Raises SchemaError."""
        self._decoder = _decoder_of(schema)

    @property
    def type(self) -> Any:
        """The Arrow type of the column `data`."""
        return self._decoder.type

    def with_data(self, batch: ArrowBatch) -> DecodedBatch:
        """Returns the record batch with the columns `data` and `dataError`. Values that are null have neither."""
        decoded: list[object] = []
        errors: list[str | None] = []
        for value in batch.column("value").to_pylist():
            found, error = self._decoded(value)
            decoded.append(found)
            errors.append(error)
        data = self._column(decoded, errors)
        names = [*batch.schema.names, DATA, DATA_ERROR]
        columns = [*batch.columns, data, pa.array(errors, pa.string())]
        return DecodedBatch(pa.RecordBatch.from_arrays(columns, names), sum(each is not None for each in errors))

    def _decoded(self, value: bytes | None) -> tuple[object, str | None]:
        if value is None:
            return None, None
        try:
            return self._decoder.decode(value), None
        except UnfitError as error:
            return None, _short(error)

    def _column(self, decoded: list[object], errors: list[str | None]) -> Any:
        """Makes the column. Arrow finds some values that do not fit, such as a decimal with too many digits."""
        try:
            return pa.array(decoded, self.type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            for place, each in enumerate(decoded):
                try:
                    pa.array([each], self.type)
                except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                    decoded[place], errors[place] = None, _short(error)
            return pa.array(decoded, self.type)


def read_value_schema(given: str, schema_of_ddl: Callable[[str], str]) -> ValueSchema:
    """Reads a schema as a user gives it: `json:FILE`, `avro:FILE` or `confluent-avro:ID=FILE[,ID=FILE]`.

    A file for JSON has a schema of Spark: as DDL, such as `id BIGINT, name STRING`, or as JSON. `schema_of_ddl` turns
    the former into the latter. Raises SchemaError.
    """
    kind, _, rest = given.partition(":")
    if kind not in (JSON, AVRO, CONFLUENT_AVRO) or not rest:
        raise SchemaError(f"a schema cannot be {given!r}: it is {SCHEMA_FORMS}")
    if kind == JSON:
        content = _read(rest)
        schema = ValueSchema(JSON, content if content.lstrip().startswith("{") else schema_of_ddl(content))
    elif kind == AVRO:
        schema = ValueSchema(AVRO, avro=(AvroSchema(_read(rest)),))
    else:
        schema = ValueSchema(CONFLUENT_AVRO, avro=tuple(_numbered(rest)))
    try:
        _decoder_of(schema)
    except SchemaError as error:
        raise SchemaError(f"{given}: {error}") from None
    return schema


def _numbered(text: str) -> Iterator[AvroSchema]:
    seen = set()
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,10})=(.+)", part)
        if found is None or int(found[1]) in seen:
            raise SchemaError(
                f"{part!r} is no schema of a registry: write the id that the registry shows and a file, once for each "
                "id, such as confluent-avro:7=order.avsc; the last one is the schema of the column"
            )
        seen.add(int(found[1]))
        yield AvroSchema(_read(found[2]), int(found[1]))


def required_packages(schema: ValueSchema | None) -> Sequence[str]:
    """Returns which packages executors need for a schema, beside those of every job."""
    return () if schema is None or schema.kind == JSON else ("fastavro",)


def _read(path: str) -> str:
    try:
        return read_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SchemaError(f"the schema {os.path.abspath(path)} cannot be read: {reason}") from None


def _decoder_of(schema: ValueSchema) -> Decoder:
    # Executors need fastavro for Avro only.
    if schema.kind == JSON:
        from .json_values import JsonDecoder

        return JsonDecoder(schema.json)
    if find_spec("fastavro") is None:
        raise SchemaError("fastavro is not installed. Install it with `pip install 'tailrace[avro]'`")
    from .avro_values import AvroDecoder

    return AvroDecoder(schema.avro, is_framed=schema.kind == CONFLUENT_AVRO)


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:_ERROR_CHARACTERS_MAX] or type(error).__name__
