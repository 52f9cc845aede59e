"""Tests what is asked of Spark; compat_tests/spark/test_value_schemas.py asks a real one."""

from typing import Any

import pytest

from tailrace.pipeline.schemas.ddl_schemas import schema_of_ddl
from tailrace.pipeline.schemas.value_errors import SchemaError


class _Session:
    def createDataFrame(self, rows: list[object], schema: str) -> Any:  # noqa: N802 - as PySpark calls it
        raise ValueError(f"cannot parse {schema!r}")


def test_what_spark_cannot_parse_is_one_sentence() -> None:
    with pytest.raises(SchemaError, match="neither DDL nor JSON of Spark: cannot parse 'id BIG'"):
        schema_of_ddl(_Session(), "id BIG\n")  # type: ignore[arg-type]
