"""The exit status and the output of `tailrace pipeline audit`; compat_tests/spark/ runs it with Spark."""

import argparse

import pytest

from tailrace.cli.main import main
from tailrace.cli.pipeline import audit_command
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.pipeline.audit.audit_report import AuditResult
from tailrace.pipeline.jobs.job_errors import JobError, WrongUsageError
from tailrace.pipeline.jobs.job_progress import Report

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("error", "status"),
    [(JobError("why"), 1), (WrongUsageError("why"), 2), (RefusedError("why"), 1), (UnreachableError("why"), 3)],
)
def test_an_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture, error: Exception, status: int) -> None:
    def fail(arguments: argparse.Namespace, report: Report) -> AuditResult:
        raise error

    monkeypatch.setattr(audit_command, "run_audit", fail)
    assert main(["pipeline", "audit", "/data"]) == status
    assert capsys.readouterr().err == "tailrace pipeline audit: why\n"


def test_the_verdict_is_printed_and_is_the_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def found(arguments: argparse.Namespace, report: Report) -> AuditResult:
        report(1, 2)
        return AuditResult("audit", arguments.topic == ["orders"], "the verdict", {"partitions": 3})

    monkeypatch.setattr(audit_command, "run_audit", found)
    assert main(["pipeline", "audit", "/data", "--topic", "orders"]) == 0
    assert capsys.readouterr().out == "partitions  3\nok: the verdict\n"
    assert main(["pipeline", "audit", "/data", "--output", "json"]) == 1
    assert '"verdict": "the verdict"' in capsys.readouterr().out
