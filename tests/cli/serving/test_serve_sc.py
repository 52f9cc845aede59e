import argparse

import pytest

from tailrace.cli.main import main
from tailrace.cli.serving.given_settings import GivenSettings
from tailrace.cli.serving.serve_sc import configure, read_settings
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings, ScSettings, SettingsError


def _given(**merged: object) -> GivenSettings:
    return GivenSettings(merged, [])


def test_what_is_not_given_has_the_ports_of_the_documents() -> None:
    assert read_settings(_given(data="/data")) == ScSettings(
        "/data",
        (ListenerSettings("PUBLIC", Address("127.0.0.1", 9003), flag="--public"),),
        ListenerSettings("PRIVATE", Address("127.0.0.1", 9004), flag="--private"),
        "sqlite",
        ListenerSettings("METRICS", Address("127.0.0.1", 9002), may_move=True, flag="--metrics"),
        60.0,
    )


def test_everything_can_be_given() -> None:
    given = _given(
        data="/data",
        public="0.0.0.0:9003,0.0.0.0:19003=outside:19003",
        private="0.0.0.0:9004",
        store="etcd://a:2379,b:2379",
        metrics="off",
        reconciliation="5",
        **{"replace-after": "600", "store-config": "/etcd.properties"},
        broker={"num.partitions": 2},
    )
    assert read_settings(given) == ScSettings(
        "/data",
        (
            ListenerSettings("PUBLIC", Address("0.0.0.0", 9003), flag="--public"),
            ListenerSettings("PUBLIC_1", Address("0.0.0.0", 19003), Address("outside", 19003), flag="--public"),
        ),
        ListenerSettings("PRIVATE", Address("0.0.0.0", 9004), flag="--private"),
        "etcd://a:2379,b:2379",
        None,
        5.0,
        {"num.partitions": "2"},
        600.0,
        "/etcd.properties",
    )


@pytest.mark.parametrize("store", ["", "postgres", "etcd://", "etcd://host", "etcd://a:1,,b:2", "sqlite://x"])
def test_a_store_that_nobody_knows_is_refused(store: str) -> None:
    with pytest.raises(SettingsError, match=r"^--store: "):
        read_settings(_given(store=store))


def test_a_file_for_etcd_has_no_effect_on_another_store() -> None:
    with pytest.raises(SettingsError, match=r"^--store-config /x has no effect with the store sqlite"):
        read_settings(_given(**{"store-config": "/x"}))


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match=r"^--store: .*--store-config") as caught:
        read_settings(_given(store="etcds://root:opensesame@a:2379"))
    assert "opensesame" not in str(caught.value)


def test_the_command_refuses_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "sc", "--store", "postgres"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tailrace serve sc: --store: 'postgres' is not ")


def test_flags_are_named_as_their_settings_are() -> None:
    parser = argparse.ArgumentParser()
    configure(parser)
    assert set(vars(parser.parse_args([]))) == {
        *(
            "data",
            "public",
            "private",
            "store",
            "store_config",
            "metrics",
            "reconciliation",
            "replace_after",
            "config",
            "set",
        ),
        *("log_level", "log_format", "insecure"),
    }
