"""What `tailrace up` refuses before it serves; that it serves is shown by the compatibility tests, which start it."""

from pathlib import Path

import pytest

from tailrace.cli.main import main


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA", "PUBLIC", "PRIVATE", "SC", "SC_PRIVATE", "SPUS", "METRICS", "LOG_LEVEL", "LOG_FORMAT"):
        monkeypatch.delenv(f"TAILRACE_{name}", raising=False)


def _refusal(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    defaults = ["--data", str(tmp_path / "data"), "--public", "127.0.0.1:0", "--metrics", "off"]
    for address in ("--sc", "--sc-private", "--private"):
        defaults += [address, "127.0.0.1:0"]
    assert main(["up", *defaults, *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    *_, sentence = captured.err.splitlines()  # after what the log says of the parts that did start
    assert sentence.startswith("tailrace up: ")
    return sentence


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--public", "nowhere"], "--public: 'nowhere' is not HOST:PORT"),
        (["--public", "192.0.2.1:9092=localhost:9092"], "cannot listen on 192.0.2.1:9092: "),
        (["--public", "127.0.0.1:0=:1"], "--public: ':1' is not HOST:PORT"),
        (["--public", "127.0.0.1:0,127.0.0.1"], "--public: '127.0.0.1' is not HOST:PORT"),
        (["--metrics", "on"], "--metrics: 'on' is not HOST:PORT"),
        (["--spus", "0"], "--spus 0: it is a number from 1 to 1000"),
        (["--sc", "nowhere"], "--sc: 'nowhere' is not HOST:PORT"),
        (["--sc", "192.0.2.1:9003"], "cannot listen on 192.0.2.1:9003: "),
        (["--sc-private", "192.0.2.1:9004"], "cannot listen on 192.0.2.1:9004: "),
        (["--private", "192.0.2.1:9006"], "cannot listen on 192.0.2.1:9006: "),
        (["--set", "num.partitions"], "--set num.partitions: it takes NAME=VALUE"),
        (["--set", "num.partitons=3"], "num.partitons"),
        (["--set", "num.partitions=three"], "num.partitions"),
        (["--config", "/nowhere/tailrace.toml"], "--config /nowhere/tailrace.toml: No such file"),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(
    arguments: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in _refusal(arguments, tmp_path, capsys)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("public = ", "not a TOML file"),
        ("publik = 'h:1'", "the settings file has no setting 'publik'"),
        ("broker = 3", "[broker] must be a table"),
        ("log-level = 'loud'", "--log-level loud: it is one of debug, error, info, warning"),
        ("[broker]\n'num.partitions' = true", "num.partitions"),
    ],
)
def test_a_settings_file_is_checked_as_flags_are(
    content: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text(content)
    assert reason in _refusal(["--config", str(file)], tmp_path, capsys)


@pytest.mark.parametrize(("name", "value"), [("LOG_LEVEL", "loud"), ("LOG_FORMAT", "yaml"), ("SPUS", "two")])
def test_the_environment_is_checked_as_flags_are(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"TAILRACE_{name}", value)
    assert f"{value}: " in _refusal([], tmp_path, capsys)


def test_outdated_data_is_not_taken_for_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "controller.json").write_text("{}")
    assert "holds data from before there was a Streaming Controller" in _refusal([], tmp_path, capsys)
