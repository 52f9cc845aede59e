from pathlib import Path

import pytest
from pyspark import SparkFiles
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from tailrace.pipeline.segments.segment_options import OptionError
from tailrace.pipeline.segments.segment_source import SegmentsDataSource, register

_SCHEMA = StructType().add("offset", "long")


def _source(tmp_path: Path, **given: str) -> SegmentsDataSource:
    return SegmentsDataSource({"path": str(tmp_path), "columns": "offset", **given})


class Session:
    """A session with executors of their own, which keeps what it was given."""

    def __init__(self, shipped: str) -> None:
        self.master, self.shipped = "spark://127.0.0.1:7077", shipped
        self.files: list[str] = []
        self.sources: list[type] = []
        self.sparkContext = self.dataSource = self  # the parts of a session

    @property
    def listFiles(self) -> list[str]:  # noqa: N802 - PySpark's name
        return [f"spark://127.0.0.1:1234/files/{Path(each).name}" for each in self.files]

    def addPyFile(self, path: str) -> None:  # noqa: N802
        assert path.startswith(self.shipped)
        self.files.append(path)

    def register(self, source: type) -> None:
        self.sources.append(source)


def test_executors_get_the_code_of_the_source_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    session = Session(str(tmp_path))
    register(session)  # type: ignore[arg-type]
    register(session)  # type: ignore[arg-type]
    assert [Path(each).name for each in session.files] == ["tailrace-job.zip"]
    assert session.sources == [SegmentsDataSource] * 2


def test_the_schema_is_that_of_the_columns(tmp_path: Path) -> None:
    assert _source(tmp_path, columns="key,offset", includeUnsealed="true").schema() == "key binary, offset bigint"
    assert "batchCrc bigint" in SegmentsDataSource({"path": "/d", "headerOnly": "true"}).schema()
    with pytest.raises(OptionError, match="takes no schema"):
        _source(tmp_path).reader(StructType().add("other", "long"))


@pytest.mark.skipif(hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="this PySpark has limits")
def test_limits_of_a_stream_need_a_newer_pyspark(tmp_path: Path) -> None:
    source = _source(tmp_path, maxOffsetsPerTrigger="10")
    with pytest.raises(OptionError, match="maxOffsetsPerTrigger needs PySpark 4"):
        source.streamReader(_SCHEMA)
