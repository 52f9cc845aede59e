"""Tests that an error of a schema is one of a job."""

import pytest

from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.schemas.value_errors import SchemaError, UnfitError


def test_an_error_of_a_schema_ends_a_job_and_one_of_a_value_does_not() -> None:
    with pytest.raises(JobError):
        raise SchemaError("wrong")
    assert not issubclass(UnfitError, JobError)
