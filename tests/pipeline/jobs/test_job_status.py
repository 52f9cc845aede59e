import pytest

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.archive.manifest.archive_manifest import ManifestError
from tailrace.pipeline.engine.engine_settings import EngineSettingsError
from tailrace.pipeline.jobs.job_errors import JobError, ServerSilentError, WrongUsageError
from tailrace.pipeline.jobs.job_status import status_of
from tailrace.runtime.settings import SettingsError


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (JobError, 1),
        (ManifestError, 1),
        (RefusedError, 1),
        (WrongUsageError, 2),
        (EngineSettingsError, 2),
        (SettingsError, 2),
        (ServerSilentError, 3),
        (UnreachableError, 3),
    ],
)
def test_each_kind_of_error_has_one_exit_status(kind: type[Exception], status: int) -> None:
    assert status_of(kind("why")) == status
