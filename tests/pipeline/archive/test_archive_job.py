"""Tests the file for spark-submit as far as it needs no Spark."""

from pathlib import Path

import pytest
from archive_samples import ARCHIVE

from tailrace.cli.main import main as command
from tailrace.pipeline.archive.archive_job import main
from tailrace.pipeline.archive.manifest.archive_manifest import ManifestError
from tailrace.pipeline.archive.proofs import verify_arguments
from tailrace.pipeline.archive.stores.archive_folder import create_archive
from tailrace.pipeline.archive.upkeep import compact_arguments
from tailrace.pipeline.jobs.job_errors import JobError, ServerSilentError

Capture = pytest.CaptureFixture[str]


def test_a_job_that_cannot_begin_says_why(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", "--to", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "archive_job.py: name topics, or archive all of them with --all\n"
    assert main(["verify", str(tmp_path), "--offline"]) == 2
    assert "is no archive" in capsys.readouterr().err
    (tmp_path / "archive.json").write_text("{}")
    assert main(["run", "orders", "--to", str(tmp_path)]) == 2
    assert "archive.json is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ServerSilentError("the SC at 127.0.0.1:1 does not answer"), 3),
        (JobError("the disk is full"), 1),
        (ManifestError("commit 3 follows commit 1: the manifest is damaged"), 1),
    ],
)
@pytest.mark.parametrize(("job", "work"), [("verify", "run_verify"), ("compact", "run_compact")])
def test_a_job_that_fails_has_the_status_of_the_command(
    job: str, work: str, error: Exception, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    create_archive(str(tmp_path), ARCHIVE)
    for module in (verify_arguments, compact_arguments):
        if hasattr(module, work):
            monkeypatch.setattr(module, work, fail)
    words = [job, str(tmp_path), *(["--offline"] if job == "verify" else [])]
    assert main(words) == status
    assert command(["pipeline", "archive", *words]) == status


def test_brokers_are_asked_before_spark_starts(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", "orders", "--to", str(tmp_path), "--bootstrap", "127.0.0.1:1"]) == 3
    assert "the broker at 127.0.0.1:1 does not answer" in capsys.readouterr().err
