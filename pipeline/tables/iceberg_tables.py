"""An Iceberg table of an archive, in any catalog that pyiceberg knows."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tailrace.pipeline.archive.manifest.archive_layout import NO_DATE
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.segments.arrow_rows import record_schema

from .archive_tables import TablePlan

_ARCHIVE, _SEQ = "tailrace.archive", "tailrace.commit"
"""The property of the table, and that of its snapshots."""
_NAME_MAPPING = "schema.name-mapping.default"
_NO_RETRIES = {"commit.retry.num-retries": "0"}
"""Another commit may have added the same records: then ours is planned again, and not only sent again."""
_NO_TIMES = {"write.metadata.metrics.column.timestamp": "none"}
"""The property with which pyiceberg reads no statistics of times. It cannot read those outside the calendar."""
_FILE = "file://"


class IcebergArchiveTable:
    """An Iceberg table whose location is a local or mounted directory."""

    def __init__(self, name: str, catalog: str, options: Mapping[str, str]) -> None:
        """Opens the table, or makes an empty one. Raises JobError.

        `options` are properties of the catalog beside those of pyiceberg's own configuration.
        """
        from pyiceberg.catalog import load_catalog

        schema = record_schema()

        self.place = f"the Iceberg table {name}"
        self._name = name
        try:
            self._catalog: Any = load_catalog(catalog, **options)
            self._catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
            self._table: Any = self._catalog.create_table_if_not_exists(name, schema)
        except Exception as error:  # catalogs raise the errors of their databases and services
            raise JobError(f"{self.place} cannot be opened in the catalog {catalog}: {_reason(error)}") from error
        self.files_directory = self._directory()

    def load(self, archive: str) -> tuple[int, set[str]]:
        """Reads up to which commit of the archive the table goes, and the names of its files. Raises JobError."""
        try:
            self._table = self._catalog.load_table(self._name)
            files = self._files()
        except Exception as error:
            raise JobError(f"{self.place} cannot be read: {_reason(error)}") from error
        snapshot = self._table.current_snapshot()
        if snapshot is not None and self._table.properties.get(_ARCHIVE) != archive:
            raise JobError(f"{self.place} is not one of this archive: name another table")
        seq = 0 if snapshot is None else int((snapshot.summary or {}).get(_SEQ) or 0)
        return seq, set(files)

    def commit(self, archive: str, seq: int, plan: TablePlan, schema: pa.Schema) -> bool:
        """Carries out the plan in one transaction. Returns False if the table has changed. Raises JobError."""
        from pyiceberg.exceptions import CommitFailedException, ValidationException
        from pyiceberg.io.pyarrow import parquet_file_to_data_file

        files = self._files()
        try:
            with self._table.transaction() as transaction:
                with transaction.update_schema() as columns:
                    columns.union_by_name(schema)
                mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
                transaction.set_properties({_NAME_MAPPING: mapping, _ARCHIVE: archive, **_NO_RETRIES})
                with transaction.update_snapshot(snapshot_properties={_SEQ: str(seq)}).overwrite() as snapshot:
                    for each in plan.add:
                        path, metadata = f"{_FILE}{self.files_directory}/{each.name}", transaction.table_metadata
                        if each.date == NO_DATE:
                            metadata = metadata.model_copy(update={"properties": {**metadata.properties, **_NO_TIMES}})
                        snapshot.append_data_file(parquet_file_to_data_file(self._table.io, metadata, path))
                    for name in plan.remove:
                        snapshot.delete_data_file(files[name])
        except (CommitFailedException, ValidationException):
            return False
        except Exception as error:
            raise JobError(f"{self.place} cannot be changed: {_reason(error)}") from error
        return True

    def _files(self) -> dict[str, Any]:
        """Returns the files of the table by their names."""
        tasks = self._table.scan().plan_files()
        return {each.file.file_path.removeprefix(f"{_FILE}{self.files_directory}/"): each.file for each in tasks}

    def _directory(self) -> str:
        location = str(self._table.location())
        if not location.startswith((_FILE, "/")):
            raise JobError(f"{self.place} is at {location}, and it has to be in a local or mounted directory")
        return f"{location.removeprefix(_FILE).rstrip('/')}/data"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
