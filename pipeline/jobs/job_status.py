"""The exit status of a job that could not be done, for commands and for files of spark-submit alike.

The numbers are those of all commands: see `tailrace.cli.options.sc_options`.
"""

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.runtime.settings import SettingsError

from .job_errors import JobError, ServerSilentError, WrongUsageError

REFUSED = 1
WRONG_USAGE = 2
UNREACHABLE = 3
EXPECTED = (JobError, SettingsError, RefusedError, UnreachableError)
"""Errors whose message is one sentence for a person."""


def status_of(error: BaseException) -> int:
    """Returns the exit status of a job that ended with one of the expected errors."""
    if isinstance(error, WrongUsageError | SettingsError):
        return WRONG_USAGE
    if isinstance(error, ServerSilentError | UnreachableError):
        return UNREACHABLE
    return REFUSED
