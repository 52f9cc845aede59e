"""The errors of schemas and of values."""

from tailrace.pipeline.jobs.job_errors import JobError


class SchemaError(JobError):
    """A schema that cannot be used. The message is one sentence."""


class UnfitError(Exception):
    """A value that does not fit its schema. The message says why."""
