"""Turns a schema in DDL, such as `id BIGINT, name STRING`, into Spark's JSON, with Spark's own parser."""

from typing import TYPE_CHECKING

from tailrace.pipeline.jobs.job_errors import reason_of_job

from .value_errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def schema_of_ddl(spark: "SparkSession", ddl: str) -> str:
    """Returns the schema in Spark's JSON. Raises SchemaError."""
    try:
        return spark.createDataFrame([], ddl.strip()).schema.json()
    except Exception as error:
        raise SchemaError(f"the schema is neither DDL nor JSON of Spark: {reason_of_job(error)}") from error
