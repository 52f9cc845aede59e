import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from msgspec import Struct, field

from tailrace.pipeline.jobs import shipped_code
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.jobs.shipped_code import check_required, code_zip, ship

CHECK = """
import sys
import tailrace.protocol.batches.record_batch as found
import tailrace.pipeline.jobs.job_errors
assert "tailrace-job.zip" in found.__file__, found.__file__
assert "trio" not in sys.modules
"""


def test_an_executor_runs_the_zip_without_tailrace(tmp_path: Path) -> None:
    path = tmp_path / "tailrace-job.zip"
    path.write_bytes(code_zip())
    words = [sys.executable, "-c", CHECK]
    done = subprocess.run(words, env={"PYTHONPATH": str(path)}, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_zip_has_the_whole_package() -> None:
    names = zipfile.ZipFile(io.BytesIO(code_zip())).namelist()
    assert names == sorted(names)
    for name in ("__init__.py", "pipeline/lag/lag_job.py", "protocol/batches/record_batch.py", "storage/log/log.py"):
        assert f"tailrace/{name}" in names


def test_the_same_sources_make_the_same_zip() -> None:
    assert code_zip() == code_zip()


class Context(Struct):
    master: str
    files: list[str] = field(default_factory=list)

    def addPyFile(self, path: str) -> None:  # noqa: N802 - PySpark's name
        self.files.append(path)


class Session(Struct):
    sparkContext: Context  # noqa: N815 - PySpark's name


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_threads_of_the_driver_need_no_file(tmp_path: Path, master: str) -> None:
    session = Session(Context(master))
    ship(session, str(tmp_path))  # type: ignore[arg-type]
    assert session.sparkContext.files == []


def test_executors_of_a_cluster_get_the_file(tmp_path: Path) -> None:
    session = Session(Context("local-cluster[2,1,1024]"))
    ship(session, str(tmp_path))  # type: ignore[arg-type]
    assert session.sparkContext.files == [str(tmp_path / "tailrace-job.zip")]
    assert zipfile.is_zipfile(session.sparkContext.files[0])


def test_a_missing_package_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    check_required()
    monkeypatch.setattr(shipped_code, "find_spec", lambda name: None if name in ("crc32c", "cramjam") else name)
    with pytest.raises(
        JobError, match="an executor lacks crc32c, cramjam: install them there with `pip install crc32c"
    ):
        check_required()
