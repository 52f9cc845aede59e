"""The manifest of an open log."""

import pytest
from log_samples import DIRECTORY, append, open_log
from simulation.files import SimulatedFiles

pytestmark = pytest.mark.trio


async def test_the_manifest_of_a_log_that_stays_open_does_not_grow_for_ever(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.storage.manifest.manifest_file._LINES_MAX", 20)
    log = open_log(files)
    for _ in range(100):
        append(log, 10)
        await log.advance_log_start(log.log_end - 10)
        await log.sync()
    assert len(files.read(f"{DIRECTORY}/manifest").splitlines()) < 30
    again = open_log(files.crash("synced"))
    assert (again.log_start, again.log_end) == (log.log_start, log.log_end)
