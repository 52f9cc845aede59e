"""Tests that a check finds every problem at once, and says where each setting comes from."""

import json
from pathlib import Path

import pytest

from tailrace.cli.main import main
from tailrace.cli.serving.config_check import Checked, check
from tailrace.cli.serving.effective_settings import KINDS

FILE = """data = "/d"
publc = "h:1"
log-level = "loud"
spus = 0

[broker]
"num.partitions" = "three"
"log.retentoin.hours" = 5
"log.retention.ms" = 86400000
"""


def _check(tmp_path: Path, content: str = "", environment: dict[str, str] | None = None, kind: str = "up") -> Checked:
    (tmp_path / "a.toml").write_text(content)
    found = check(KINDS[kind], str(tmp_path / "a.toml"), {"HOME": "/h"} | (environment or {}))
    assert all(each.name for each in found.settings)
    return found


def _problems(found: Checked, tmp_path: Path) -> list[str]:
    return [str(each).replace(f"{tmp_path}/", "") for each in found.problems]


def test_every_problem_is_found_with_its_place(tmp_path: Path) -> None:
    environment = {
        "TAILRACE_BROKER_LOG_RETENTION_HOURS": "x",
        "TAILRACE_BROKER_NUM_PARTITONS": "3",
        "TAILRACE_TOPICS": "a",
        "TAILRACE_METRICS": "on",
    }
    found = _check(tmp_path, FILE, environment)
    assert _problems(found, tmp_path) == [
        "TAILRACE_BROKER_NUM_PARTITONS: there is no such broker config; did you mean TAILRACE_BROKER_NUM_PARTITIONS?",
        "TAILRACE_TOPICS: there is no such setting; did you mean TAILRACE_TOPIC?",
        "a.toml:2: there is no setting 'publc'; did you mean public?",
        "a.toml:3: --log-level loud: expected one of debug, error, info, warning",
        "a.toml:4: --spus 0: expected a number from 1 to 1000",
        "a.toml:7: num.partitions: 'three' is not allowed; it takes a whole number of 32 bits",
        "a.toml:8: there is no broker setting 'log.retentoin.hours'; did you mean 'log.retention.hours'?",
        "TAILRACE_BROKER_LOG_RETENTION_HOURS: log.retention.hours: 'x' is not allowed; "
        "it takes a whole number of 32 bits",
        "TAILRACE_METRICS: --metrics: 'on' is not HOST:PORT with a port from 0 to 65535",
    ]
    sources = {each.name: (each.value, each.source.replace(f"{tmp_path}/", "")) for each in found.settings}
    assert sources["data"] == ("/d", "a.toml:1")
    assert sources["log.retention.ms"] == ("86400000", "a.toml:9")
    assert sources["log-level"] == ("info", "default"), "what is wrong is left out"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("data = '/d'\npublic = \n", "a.toml:2: not a TOML file: Invalid value (at line 2, column 10)"),
        ("[broker]\nnum.partitions = 3", "a.toml:1: [broker] num: put names in quotes, as in"),
        ("broker = 3", "a.toml:1: [broker] must be a table of Kafka's broker settings"),
        (
            "[broker]\n'group.min.session.timeout.ms' = 9000000",
            "a.toml:2: group.min.session.timeout.ms: 9000000 is not allowed; it must be at most",
        ),
        ("data = ''", "a.toml:1: --data: the path is empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_the_line(content: str, problem: str, tmp_path: Path) -> None:
    (found,) = _problems(_check(tmp_path, content), tmp_path)
    assert found.startswith(problem)


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    environment = {"TAILRACE_DATA": "/e", "TAILRACE_BROKER_NUM_PARTITIONS": "7"}
    found = _check(tmp_path, "data = '/d'\n[broker]\n'num.partitions' = 3", environment)
    assert found.problems == []
    sources = {each.name: (each.value, each.source) for each in found.settings}
    assert sources["data"] == ("/e", "TAILRACE_DATA")
    assert sources["num.partitions"] == ("7", "TAILRACE_BROKER_NUM_PARTITIONS")
    assert sources["group.initial.rebalance.delay.ms"] == ("0", "default of up")


def test_an_ephemeral_cluster_has_other_defaults(tmp_path: Path) -> None:
    found = _check(tmp_path, "ephemeral = true\n[broker]\n'log.flush.interval.ms' = 7")
    sources = {each.name: (each.value, each.source) for each in found.settings}
    assert sources["log.flush.interval.bytes"] == (str(2**63 - 1), "default of up")
    assert sources["log.flush.interval.ms"] == ("7", f"{tmp_path}/a.toml:3")


def test_what_flags_have_to_give_is_no_problem_of_a_file(tmp_path: Path) -> None:
    found = _check(tmp_path, kind="spu")
    assert found.problems == []
    sources = {each.name: (each.value, each.source) for each in found.settings}
    assert sources["id"] == sources["sc"] == ("", "required")


def test_the_command_prints_problems_beside_the_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.toml"
    file.write_text("public = 'h:1'\nspus = 0")
    assert main(["config", "check", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"tailrace config check: {file}:2: --spus 0: expected a number from 1 to 1000\n"
    assert captured.out.startswith("SETTING ")
    file.write_text("public = 'h:1'")
    monkeypatch.setenv("TAILRACE_CONFIG", str(file))
    assert main(["config", "check", "--output", "json", "--all"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["problems"] == []
    assert {"name": "public", "value": "h:1", "source": f"{file}:1"} in document["settings"]
    assert "num.partitions" in {each["name"] for each in document["settings"]}
    assert main(["config", "check", "/nowhere.toml"]) == 2
    assert "--config /nowhere.toml: No such file" in capsys.readouterr().err
