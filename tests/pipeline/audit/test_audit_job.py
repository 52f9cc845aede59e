"""The exit status of the file for spark-submit; compat_tests/spark/ submits it."""

import argparse

import pytest

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.audit import audit_job
from tailrace.pipeline.audit.audit_report import AuditResult
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.runtime.settings import SettingsError


@pytest.mark.parametrize(
    ("error", "status"),
    [(JobError("why"), 1), (SettingsError("why"), 2), (RefusedError("why"), 1), (UnreachableError("why"), 3)],
)
def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, status: int
) -> None:
    def fail(arguments: argparse.Namespace) -> AuditResult:
        raise error

    monkeypatch.setattr(audit_job, "run_audit", fail)
    assert audit_job.main(["/data"]) == status
    assert capsys.readouterr().err == "audit_job.py: why\n"


@pytest.mark.parametrize("is_ok", [True, False])
def test_the_verdict_is_printed_and_is_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_ok: bool
) -> None:
    monkeypatch.setattr(audit_job, "run_audit", lambda given: AuditResult("audit", is_ok, "the verdict"))
    assert audit_job.main(["/data"]) == (0 if is_ok else 1)
    assert capsys.readouterr().out.endswith("ok: the verdict\n")
