import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from tailrace.cli.serving.given_settings import GivenSettings, given_settings
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings, SettingsError

DEFAULT = Address("127.0.0.1", 9008)


def _given(merged: Mapping[str, object], *pairs: str) -> GivenSettings:
    return GivenSettings(merged, list(pairs))


@pytest.mark.parametrize(
    "public",
    [
        ["h:1", "0.0.0.0:2=outside:3"],
        ["h:1,0.0.0.0:2=outside:3"],
        "h:1, 0.0.0.0:2=outside:3",
    ],
)
def test_listeners_come_from_a_repeated_flag_a_list_or_a_line(public: object) -> None:
    assert _given({"public": public}).listeners() == (
        ListenerSettings("PUBLIC", Address("h", 1), flag="--public"),
        ListenerSettings("PUBLIC_1", Address("0.0.0.0", 2), Address("outside", 3), flag="--public"),
    )


def test_a_list_of_listeners_names_some() -> None:
    with pytest.raises(SettingsError, match=r"^--public: the list is empty$"):
        _given({"public": []}).listeners()


@pytest.mark.parametrize("value", [["a"], {"a": 1}, "a\0b"])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(SettingsError, match=r"^--data .*: expected a single text$"):
        _given({"data": value}).data_directory()


def test_one_listener_is_as_given_or_the_default() -> None:
    default = ListenerSettings("PRIVATE", DEFAULT, may_move=True)
    assert _given({}).listener("private", default) == replace(default, flag="--private")
    assert _given({"private": "h:1=g:2"}).listener("private", default) == ListenerSettings(
        "PRIVATE", Address("h", 1), Address("g", 2), flag="--private"
    )


def test_clients_are_told_no_port_to_which_nobody_can_connect() -> None:
    with pytest.raises(SettingsError, match=r"^--public: 'broker:0' is not HOST:PORT with a port from 1 to 65535$"):
        _given({"public": "127.0.0.1:0=broker:0"}).listeners()


def test_metrics_can_be_off_and_move_only_from_the_default() -> None:
    assert _given({"metrics": "off"}).metrics_listener(DEFAULT) is None
    assert _given({}).metrics_listener(DEFAULT) == ListenerSettings("METRICS", DEFAULT, may_move=True, flag="--metrics")
    assert _given({"metrics": "h:1"}).metrics_listener(DEFAULT) == ListenerSettings(
        "METRICS", Address("h", 1), flag="--metrics"
    )


@pytest.mark.parametrize(("value", "number"), [("0", 0), (7, 7), ("007", 7), ("10", 10)])
def test_whole_numbers(value: object, number: int) -> None:
    assert _given({"spus": value}).whole_number("spus", 0, 10) == number
    assert _given({}).whole_number("spus", 0, 10) is None


@pytest.mark.parametrize("value", ["", "two", "-1", "11", "1.0", "+1", "١", "9" * 5000, True])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(SettingsError, match=r"^--spus .*: expected a number from 0 to 10$"):
        _given({"spus": value}).whole_number("spus", 0, 10)


def test_seconds() -> None:
    assert _given({}).seconds("reconciliation", 60) == 60
    assert _given({"reconciliation": "0.5"}).seconds("reconciliation", 60) == 0.5
    for wrong in ("0", "-1", "soon", "nan", "inf"):
        with pytest.raises(SettingsError, match=r"^--reconciliation .*: expected a number of seconds above 0$"):
            _given({"reconciliation": wrong}).seconds("reconciliation", 60)


def test_what_must_be_given_is_named() -> None:
    assert _given({"id": 5}).required("id", "a number") == "5"
    assert _given({"sc": ["a:1", "b:2"]}).required("sc", "addresses")
    with pytest.raises(SettingsError, match=r"^--id is missing: give a number$"):
        _given({}).required("id", "a number")


def test_addresses() -> None:
    assert _given({"sc": "a:1,b:2"}).addresses("sc") == (Address("a", 1), Address("b", 2))
    with pytest.raises(SettingsError, match=r"^--sc: '' is not HOST:PORT"):
        _given({"sc": "a:1,"}).addresses("sc")


def test_a_word_is_one_of_those_that_are_allowed() -> None:
    assert _given({"log-level": "info"}).one_of("log-level", ("info", "error")) == "info"
    assert _given({}).one_of("log-level", ("info", "error")) is None
    with pytest.raises(SettingsError, match=r"^--log-level loud: expected one of error, info$"):
        _given({"log-level": "loud"}).one_of("log-level", ("info", "error"))


def test_pairs_of_the_command_line_win_over_the_table_of_the_file() -> None:
    table = {"num.partitions": 3, "auto.create.topics.enable": False}
    assert _given({"broker": table}, "num.partitions = 4").broker_settings() == {
        "num.partitions": "4",
        "auto.create.topics.enable": "false",
    }
    with pytest.raises(SettingsError, match=r"^--set nothing: expected NAME=VALUE"):
        _given({}, "nothing").broker_settings()
    with pytest.raises(SettingsError, match="must be a table"):
        _given({"broker": 3}).broker_settings()
    with pytest.raises(SettingsError, match=r'\[broker\] num: put names in quotes, as in "num\.partitions" = 3$'):
        _given({"broker": {"num": {"partitions": 3}}}).broker_settings()


def test_the_data_directory_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert _given({"data": "here"}).data_directory() == str(tmp_path / "here")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert _given({}).data_directory() == str(tmp_path / "tailrace")


def test_file_environment_and_flags_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text("data = 'file'\nrack = 'file'\nid = 3\n[broker]\n'num.partitions' = 2\n")
    monkeypatch.setenv("TAILRACE_RACK", "environment")
    arguments = argparse.Namespace(config=str(file), set=["num.partitions=4"], data="flag", rack=None, id=None)
    given = given_settings({"data", "rack", "id"}, arguments)
    assert [given.text(name) for name in ("data", "rack", "id")] == ["flag", "environment", "3"]
    assert given.broker_settings() == {"num.partitions": "4"}


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^--config /nowhere/file: No such file"):
        given_settings({"data"}, argparse.Namespace(config="/nowhere/file", set=[], data=None))


def test_an_empty_or_unusable_data_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^--data: the path is empty; leave the option out"):
        _given({"data": ""}).data_directory()
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"/file: this is a file; choose a directory$"):
        _given({"data": str(tmp_path / "file")}).data_directory()


def test_a_published_address_needs_a_listener_whose_clients_can_be_told_it() -> None:
    def published(*public: str) -> Address | None:
        given = _given({"public": list(public), "published": "192.0.2.7:19092"})
        return given.published(given.listeners())

    assert published("0.0.0.0:9092") == published("127.0.0.1:9005", "10.0.0.5:9092") == Address("192.0.2.7", 19092)
    for public, reason in (
        (("0.0.0.0:9092=broker.example:9092",), "has no effect, because each --public names an address"),
        (("127.0.0.1:9092", "[::1]:9092", "localhost:9093"), "listens only for local clients"),
    ):
        with pytest.raises(SettingsError, match=reason):
            published(*public)
    assert _given({"public": "0.0.0.0:9092"}).published(()) is None
