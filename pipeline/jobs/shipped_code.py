"""Ships our code to executors as one zip, so that executors need no Tailrace.

They do need the packages of REQUIRED, which are compiled and cannot be shipped like this. The zip holds all of
Tailrace, because it takes the place of an installed one where there is one.
"""

import io
import os
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import tailrace

from .job_errors import JobError
from .spark_session import is_connect, runs_in_one_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED = ("msgspec", "crc32c", "cramjam", "numpy", "pyarrow")
"""The packages that the code of executors imports."""
ZIP_NAME = "tailrace-job.zip"
_OLDEST = (1980, 1, 1, 0, 0, 0)
"""The time of every entry, so that the same sources always make the same zip."""
_ROOT = Path(tailrace.__file__).parent


def code_zip(root: Path = _ROOT) -> bytes:
    """Returns a zip of the sources of the package at `root`."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(_sources(root)):
            archive.writestr(zipfile.ZipInfo(f"tailrace/{path}", _OLDEST), (root / path).read_bytes())
    return content.getvalue()


def ship(spark: "SparkSession", directory: str) -> None:
    """Gives the executors of the session our code. `directory` must live as long as the session.

    Threads of this process need nothing, so a session in local mode gets nothing. The server of Spark Connect takes a
    copy at once, and recognizes a copy that it already has.
    """
    if not is_connect(spark) and runs_in_one_process(str(spark.sparkContext.master)):
        return
    path = os.path.join(directory, ZIP_NAME)
    Path(path).write_bytes(code_zip())
    if is_connect(spark):
        spark.addArtifacts(path, pyfile=True)
    else:
        spark.sparkContext.addPyFile(path)


def ship_once(spark: "SparkSession") -> None:
    """Gives the executors of a session our code, if they do not have it yet."""
    if is_connect(spark):
        with TemporaryDirectory() as directory:
            ship(spark, directory)
        return
    context = spark.sparkContext
    if runs_in_one_process(str(context.master)) or any(each.endswith(f"/{ZIP_NAME}") for each in context.listFiles):
        return
    from pyspark import SparkFiles

    # Spark removes this directory when the session ends. It keeps its own copy of the zip in there, so ours is below.
    directory = os.path.join(SparkFiles.getRootDirectory(), "shipped")
    os.makedirs(directory, exist_ok=True)
    ship(spark, directory)


def check_required(*more: str) -> None:
    """Raises JobError if this process, an executor, lacks a package. Tasks call it before anything else.

    `more` names packages that the task imports beside those of every job.
    """
    missing = [each for each in (*REQUIRED, *more) if find_spec(each) is None]
    if missing:
        raise JobError(
            f"an executor lacks {', '.join(missing)}: install {'them' if missing[1:] else 'it'} there with "
            f"`pip install {' '.join(missing)}`, or ship an environment with spark.archives"
        )


def _sources(root: Path) -> Iterator[str]:
    """Yields the names of the modules at `root`. Rooms may be symbolic links, which rglob does not follow."""
    for directory, _, names in os.walk(root, followlinks=True):
        for name in names:
            if name.endswith(".py"):
                yield Path(directory, name).relative_to(root).as_posix()
