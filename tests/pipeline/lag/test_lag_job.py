"""Tests the arguments of the job; compat_tests/spark/ submits it."""

from pathlib import Path

import pytest
from spark_progress import ReportingSession

from tailrace.pipeline.lag import lag_job

NO_BROKER = "127.0.0.1:1"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    ran = str(tmp_path / "ran")
    path.write_text(f"import pathlib, sys\npathlib.Path({ran!r}).write_text(' '.join([__name__, *sys.argv[1:]]))\n")
    return path


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch) -> ReportingSession:
    found = ReportingSession()
    monkeypatch.setattr(lag_job, "open_session", lambda name: found)
    monkeypatch.setattr("sys.argv", ["lag_job.py"])
    return found


def test_the_program_runs_with_its_own_arguments(program: Path, session: ReportingSession) -> None:
    words = ["--group", "g", "--bootstrap", NO_BROKER, str(program), "--group", "its own", "x"]
    assert lag_job.main(words) == 0
    assert (program.parent / "ran").read_text() == "__main__ --group its own x"
    assert session.streams.listeners == [], "the lag is detached at the end"


def test_wrong_arguments_run_nothing(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lag_job.main(["--group", " ", "--bootstrap", NO_BROKER, str(program)]) == 2
    assert lag_job.main(["--group", "g", "--bootstrap", "nowhere", str(program)]) == 2
    assert capsys.readouterr().err == (
        "lag_job.py: the group needs a name, such as 'spark-orders' or 'spark-{query}'\n"
        "lag_job.py: bootstrap: 'nowhere' is not HOST:PORT with a port from 1 to 65535\n"
    )
    assert not (program.parent / "ran").exists()


def test_an_error_of_the_program_stays_its_own(program: Path) -> None:
    program.write_text("raise ValueError('its own')")
    with pytest.raises(ValueError, match="its own"):
        lag_job.main(["--group", "g", "--bootstrap", NO_BROKER, str(program)])
