import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog
from terminals import on_terminal

from tailrace.runtime import logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_json_is_one_object_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", json=True)
    logger = logs.get_logger().bind(topic="orders")
    logger.info("segment_sealed", base_offset=7)
    logger.warning("log_truncated", reason={1})
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second = map(json.loads, captured.err.splitlines())
    assert first.pop("timestamp").endswith("Z")
    assert first == {"event": "segment_sealed", "level": "info", "topic": "orders", "base_offset": 7}
    assert second["reason"] == "{1}", "values that JSON cannot express are written as text"


def test_an_exception_is_still_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", json=True)
    try:
        raise ValueError("bad")
    except ValueError:
        logs.get_logger().error("compaction_failed", exc_info=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["exception"][0]["exc_value"] == "bad"


def test_only_unwritable_log_lines_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    full = open("/dev/full", "w")  # noqa: SIM115 - to close it fails
    monkeypatch.setattr("sys.stderr", full)
    logs.configure("info", json=True)
    for number in range(1000):
        logs.get_logger().info("segment_sealed", base_offset=number)
    with pytest.raises(OSError, match="No space left"):
        full.close()


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", json=False)
    logs.get_logger().info("segment_sealed", base_offset=7)
    assert "segment_sealed" in capsys.readouterr().err


@pytest.mark.parametrize(("level", "heard"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_events_below_the_level_are_not_logged(level: str, heard: int, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level, json=True)
    assert logs.shows_debug() is (level == "debug")
    logger = logs.get_logger()
    logger.debug("a")
    logger.info("b")
    logger.warning("c")
    logger.error("d")
    assert len(capsys.readouterr().err.splitlines()) == heard


def test_without_a_terminal_it_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    logs.get_logger().info("started")
    assert json.loads(capsys.readouterr().err)["event"] == "started"


def test_logs_do_not_import_the_library_for_terminals() -> None:
    look = "import tailrace.runtime.logs, sys; sys.exit(any(name.partition('.')[0] == 'rich' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", look]).returncode == 0
    importable = "import tailrace.runtime.logs, rich.table"
    assert subprocess.run([sys.executable, "-c", importable]).returncode == 0


def test_a_terminal_gets_no_colours_if_the_user_wants_none() -> None:
    log = "from tailrace.runtime import logs; logs.configure(json=False); logs.get_logger().info('segment_sealed')"
    assert "\x1b[" in on_terminal(["-c", log])[1]
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        status, shown = on_terminal(["-c", log], environment)
        assert status == 0
        assert "segment_sealed" in shown
        assert "\x1b" not in shown


def test_a_library_logs_through_the_handlers_of_its_program(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "tailrace.pipeline"):
        logger = logs.library_logger("tailrace.pipeline.lag")
        logger.info("metrics_served", address="here")
        logger.warning("lag_attempt_failed", what="commit", reason="no coordinator")
    (record,) = caplog.records
    assert record.getMessage() == "event='lag_attempt_failed' what='commit' reason='no coordinator'"
    assert (record.name, record.levelname) == ("tailrace.pipeline.lag", "WARNING")
