from pathlib import Path

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from tailrace.pipeline.segments.segment_options import OptionError
from tailrace.pipeline.segments.segment_source import SegmentsDataSource

_SCHEMA = StructType().add("offset", "long")


def _source(tmp_path: Path, **given: str) -> SegmentsDataSource:
    return SegmentsDataSource({"path": str(tmp_path), "columns": "offset", **given})


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
