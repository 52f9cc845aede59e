"""Ships our code to executors: one zip of the modules that a job names, so that executors need no Tailrace.

Executors do need the packages of REQUIRED, which are compiled and cannot be shipped like this.
"""

import io
import os
import zipfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import tailrace

from .job_errors import JobError
from .spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED = ("msgspec", "crc32c", "cramjam")
"""The packages that the shipped modules import."""
ZIP_NAME = "tailrace-job.zip"
_OLDEST = (1980, 1, 1, 0, 0, 0)
"""The time of every entry, so that the same sources always make the same zip."""
_ROOT = Path(tailrace.__file__).parent


def code_zip(rooms: Iterable[str], root: Path = _ROOT) -> bytes:
    """Returns a zip of the package with these rooms, such as `protocol` or `pipeline/segments`, and all inside them.

    Raises JobError if there is no such room.
    """
    names = {"__init__.py"}
    for room in rooms:
        inside = [_name(root, each) for each in (root / room).rglob("*.py")]
        if not inside:
            raise JobError(f"{room} has no modules that could be shipped to executors")
        names.update(inside)
        parts = room.split("/")
        names.update("/".join([*parts[:count], "__init__.py"]) for count in range(1, len(parts)))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(names):
            archive.writestr(zipfile.ZipInfo(f"tailrace/{name}", _OLDEST), (root / name).read_bytes())
    return content.getvalue()


def ship(spark: "SparkSession", rooms: Iterable[str], directory: str) -> None:
    """Gives the executors of the session our code. `directory` must live as long as the session."""
    path = os.path.join(directory, ZIP_NAME)
    Path(path).write_bytes(code_zip(rooms))
    if is_connect(spark):
        spark.addArtifacts(path, pyfile=True)
    else:
        spark.sparkContext.addPyFile(path)


def check_required() -> None:
    """Raises JobError if this process, an executor, lacks a package. Tasks call it before anything else."""
    missing = [each for each in REQUIRED if find_spec(each) is None]
    if missing:
        raise JobError(
            f"an executor lacks {', '.join(missing)}: install {'them' if missing[1:] else 'it'} there with "
            f"`pip install {' '.join(missing)}`, or ship an environment with spark.archives"
        )


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()
