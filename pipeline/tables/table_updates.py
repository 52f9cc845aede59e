"""Makes the tables of an archive: one function for each format."""

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, StoreOf
from tailrace.pipeline.jobs.job_errors import JobError, WrongUsageError

from .archive_tables import TableResult, update_table
from .delta_tables import DeltaArchiveTable
from .iceberg_tables import IcebergArchiveTable

CATALOG = "default"
NO_OPTIONS: Mapping[str, str] = {}
_NAME = re.compile(r"[\w-]+(\.[\w-]+)+")


def delta_table(
    directory: str, path: str, *, topics: Sequence[str] = (), store_of: StoreOf | None = None
) -> TableResult:
    """Makes the Delta table at `path` equal to the archive in `directory`, or to these topics of it.

    Raises JobError and ManifestError; the table is then as it was.
    """
    _require("deltalake", "delta")
    if not path:
        raise WrongUsageError("the directory of the Delta table is empty: name one, such as ./table")
    return update_table(ArchiveFolder(directory, store_of), DeltaArchiveTable(path), topics)


def iceberg_table(
    directory: str,
    name: str,
    *,
    catalog: str = CATALOG,
    options: Mapping[str, str] = NO_OPTIONS,
    topics: Sequence[str] = (),
    store_of: StoreOf | None = None,
) -> TableResult:
    """Makes the Iceberg table `NAMESPACE.TABLE` equal to the archive in `directory`, or to these topics of it.

    `options` are properties of the catalog beside those of pyiceberg's configuration. Raises JobError and
    ManifestError; the table is then as it was.
    """
    _require("pyiceberg", "iceberg")
    if _NAME.fullmatch(name) is None:
        raise WrongUsageError(f"{name!r} is no name of an Iceberg table: write NAMESPACE.TABLE")
    folder = ArchiveFolder(directory, store_of)
    return update_table(folder, IcebergArchiveTable(name, catalog, options), topics)


def _require(package: str, extra: str) -> None:
    for each in (package, "pyarrow"):
        if find_spec(each) is None:
            raise JobError(f"{each} is not installed. Install it with `pip install 'tailrace[{extra}]'`")
