import pytest

from tailrace.cli.pipeline.job_output import failed, job_progress, show
from tailrace.pipeline.jobs.job_errors import WrongUsageError

Capture = pytest.CaptureFixture[str]


def test_an_error_is_one_line_with_the_name_of_the_command(capsys: Capture) -> None:
    assert failed("pipeline audit", WrongUsageError("why")) == 2
    assert capsys.readouterr().err == "tailrace pipeline audit: why\n"


def test_a_result_is_printed_and_progress_only_on_a_terminal(capsys: Capture) -> None:
    progress = job_progress("comparing", "ranges")
    progress.move_to(1, 2)
    progress.clear()
    show("the verdict")
    assert capsys.readouterr() == ("the verdict\n", "")
