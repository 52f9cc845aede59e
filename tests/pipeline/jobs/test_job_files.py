import argparse

import pytest

from tailrace.pipeline.jobs.job_arguments import add_output
from tailrace.pipeline.jobs.job_errors import WrongUsageError
from tailrace.pipeline.jobs.job_files import run_file
from tailrace.pipeline.jobs.job_results import JobResult

Capture = pytest.CaptureFixture[str]


def _run(given: argparse.Namespace) -> JobResult:
    return JobResult("some", False, "the verdict")


def _fail(given: argparse.Namespace) -> JobResult:
    raise WrongUsageError("why")


def test_the_result_is_printed_and_is_the_exit_status(capsys: Capture) -> None:
    assert run_file("some_job.py", "", add_output, _run, []) == 1
    assert capsys.readouterr().out == "not ok: the verdict\n"
    assert run_file("some_job.py", "", add_output, _run, ["--output", "json"]) == 1
    assert '"verdict": "the verdict"' in capsys.readouterr().out


def test_an_error_is_one_line_with_the_name_of_the_file(capsys: Capture) -> None:
    assert run_file("some_job.py", "", add_output, _fail, []) == 2
    assert capsys.readouterr().err == "some_job.py: why\n"
