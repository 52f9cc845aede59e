import os
import pwd

import pytest

from tailrace.runtime.settings import SettingsError
from tailrace.runtime.settings_sources import (
    broker_configs_of,
    broker_variable_of,
    default_data_directory,
    merge,
    read_file,
    unknown_variables,
    variable_of,
)

NAMES = frozenset({"data", "public", "log-level"})


def test_a_file_is_toml() -> None:
    assert read_file("a.toml", b'public = "h:1"\n[broker]\n"num.partitions" = 3\n') == {
        "public": "h:1",
        "broker": {"num.partitions": 3},
    }


@pytest.mark.parametrize("text", [b"public = ", b"\xff", b"a = 1\na = 2", b"a = " + b"9" * 5000])
def test_a_file_that_is_not_toml_is_named(text: bytes) -> None:
    with pytest.raises(SettingsError, match=r"^a\.toml: not a TOML file: "):
        read_file("a.toml", text)


def test_a_file_that_is_nested_too_deeply_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^a\.toml: it is nested too deeply$"):
        read_file("a.toml", b"a = " + b"[" * 5000)


def test_the_last_source_wins() -> None:
    file = {"data": "file", "public": "file", "log-level": "file"}
    environment = {"TAILRACE_PUBLIC": "environment", "TAILRACE_LOG_LEVEL": "environment", "OTHER": "x"}
    assert merge(NAMES, file, environment, {"log-level": "flag", "public": None}) == {
        "data": "file",
        "public": "environment",
        "log-level": "flag",
    }
    assert merge(NAMES, {}, {}, {}) == {}


def test_a_table_stands_in_the_file_alone() -> None:
    file = {"broker": {"num.partitions": 3}}
    assert merge(NAMES | {"broker"}, file, {"TAILRACE_BROKER": "x"}, {}) == file


def test_an_unknown_name_in_the_file_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="no setting 'publik'; there are: data, log-level, public"):
        merge(NAMES, {"publik": "h:1", "zzz": 1}, {}, {})


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.local/share/tailrace"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}, "/data/tailrace"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": ""}, "/home/ada/.local/share/tailrace"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "relative"}, "/home/ada/.local/share/tailrace"),
    ],
)
def test_data_lives_where_the_user_keeps_data(environment: dict[str, str], directory: str) -> None:
    assert default_data_directory(environment) == directory


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "relative", "XDG_DATA_HOME": "relative"}])
def test_without_a_usable_home_the_user_database_names_one(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert default_data_directory(environment) == f"{home}/.local/share/tailrace"

    def unknown(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(SettingsError, match=r"choose a directory with --data, or set HOME$"):
        default_data_directory(environment)


def test_an_empty_variable_sets_nothing() -> None:
    assert merge(NAMES, {"data": "file"}, {"TAILRACE_DATA": ""}, {}) == {"data": "file"}


def test_a_broker_config_has_a_variable_with_underscores() -> None:
    environment = {"TAILRACE_BROKER_LOG_RETENTION_MS": "1", "TAILRACE_BROKER_NUM_PARTITIONS": "", "OTHER": "x"}
    assert broker_variable_of("log.retention.ms") == "TAILRACE_BROKER_LOG_RETENTION_MS"
    assert broker_configs_of(environment, ["log.retention.ms", "num.partitions"]) == {"log.retention.ms": "1"}


def test_variables_that_others_set_are_not_taken_for_settings() -> None:
    environment = {
        "TAILRACE_PUBLIC": "h:1",
        "TAILRACE_PUBLC": "h:1",
        "TAILRACE_BROKER_FLY": "1",
        "TAILRACE_EMPTY": "",
        "TAILRACE_TEST_BOOTSTRAP": "h:1",
        # as Kubernetes sets them in the pods beside services
        "TAILRACE_SERVICE_HOST": "10.0.0.1",
        "TAILRACE_SERVICE_PORT_KAFKA": "9092",
        "TAILRACE_PORT": "tcp://10.0.0.1:9092",
        "TAILRACE_SC_PORT_9003_TCP_ADDR": "10.0.0.1",
    }
    known = [variable_of("public"), variable_of("log-level")]
    assert unknown_variables(environment, known) == ["TAILRACE_BROKER_FLY", "TAILRACE_PUBLC"]
