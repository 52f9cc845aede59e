"""A Delta table of an archive, partitioned by date."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tailrace.pipeline.archive.manifest.archive_layout import NO_DATE
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.wall_clock import SystemClock, WallClock

from .archive_tables import TableFile, TablePlan

_DATE = "date"
_DECORATION = re.compile(r"\x1b\[\d*m|\u21b3")
_DESCRIPTION = "Archive of Tailrace, "


class DeltaArchiveTable:
    """A Delta table in a local or mounted directory."""

    def __init__(self, path: str, wall_clock: WallClock | None = None) -> None:
        self.files_directory = path.rstrip("/")
        self.place = f"the Delta table {path}"
        self._wall_clock = wall_clock or SystemClock()
        self._table: Any = None

    def load(self, archive: str) -> tuple[int, set[str]]:
        """Reads up to which commit of the archive the table goes, and the names of its files. Raises JobError."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            if not DeltaTable.is_deltatable(self.files_directory):
                self._table = None
                return 0, set()
            table = self._table = DeltaTable(self.files_directory)
            actions = pa.table(table.get_add_actions()).column("path").to_pylist()
            seq = table.transaction_version(_app_id(archive)) or 0
        except (DeltaError, OSError) as error:
            raise JobError(f"{self.place} cannot be read: {_in_one_line(error)}") from error
        if table.metadata().description != f"{_DESCRIPTION}{archive}":
            raise JobError(f"{self.place} is not one of this archive: name another directory")
        return seq, set(actions)

    def commit(self, archive: str, seq: int, plan: TablePlan, schema: pa.Schema) -> bool:
        """Carries out the plan in one transaction. Returns False if the table has changed. Raises JobError."""
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import CommitFailedError, DeltaError
        from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

        now_ms = self._wall_clock.now_ms()
        try:
            table = self._table
            if table is None:
                columns = Schema.from_arrow(pa.schema([*schema, (_DATE, pa.date32())]))
                table = DeltaTable.create(
                    self.files_directory,
                    columns,
                    mode="error",
                    partition_by=[_DATE],
                    description=f"{_DESCRIPTION}{archive}",
                )
            self._add_columns(table, schema)
            actions: list[AddAction | RemoveAction] = [
                AddAction(each.name, each.bytes, {_DATE: _date(each)}, now_ms, True, _statistics(each))
                for each in plan.add
            ]
            dates = {name: _date_in(name) for name in plan.remove}
            actions += [RemoveAction(name, True, now_ms, partition_values={_DATE: dates[name]}) for name in plan.remove]
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                [_DATE],
                # A commit that came first may have added the same records: then this one is planned again.
                commit_properties=CommitProperties(
                    max_commit_retries=0, app_transactions=[Transaction(_app_id(archive), seq)]
                ),
            )
        except CommitFailedError:
            return False
        except (DeltaError, OSError) as error:
            raise JobError(f"{self.place} cannot be changed: {_in_one_line(error)}") from error
        return True

    def _add_columns(self, table: Any, schema: pa.Schema) -> None:
        """Adds columns that the table does not have yet. Raises JobError if one has another type there."""
        from deltalake import Schema

        known = {field.name: field.type for field in table.schema().fields}
        wanted: Sequence[Any] = Schema.from_arrow(schema).fields
        for field in wanted:
            if field.name in known and known[field.name] != field.type:
                raise JobError(
                    f"the column {field.name} has another type in {self.place} than in the archive: make a new table"
                )
        if new := [field for field in wanted if field.name not in known]:
            table.alter.add_columns(new)


def _in_one_line(error: Exception) -> str:
    """Returns the message of an error of deltalake in one line, without the colours and arrows of its causes."""
    return "; ".join(line for each in str(error).splitlines() if (line := _DECORATION.sub("", each).strip()))


def _app_id(archive: str) -> str:
    return f"tailrace-archive-{archive}"


def _date(file: TableFile) -> str | None:
    return None if file.date == NO_DATE else file.date


def _date_in(name: str) -> str | None:
    date = name.split("/")[-2].removeprefix(f"{_DATE}=")
    return None if date == NO_DATE else date


def _statistics(file: TableFile) -> str:
    """Returns the statistics by which readers leave out files."""
    same = {"topic": file.topic, "partition": file.partition}
    return json.dumps(
        {
            "numRecords": file.records,
            "minValues": {**same, "offset": file.first},
            "maxValues": {**same, "offset": file.last},
            "nullCount": {"topic": 0, "partition": 0, "offset": 0},
        }
    )
