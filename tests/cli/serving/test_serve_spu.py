import argparse

import pytest

from tailrace.cli.main import main
from tailrace.cli.serving.given_settings import GivenSettings
from tailrace.cli.serving.serve_spu import configure, read_settings
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings, SettingsError, SpuSettings


def _given(**merged: object) -> GivenSettings:
    return GivenSettings(merged, [])


def test_what_is_not_given_has_the_ports_of_the_documents() -> None:
    assert read_settings(_given(id="5", sc="sc:9004", data="/data")) == SpuSettings(
        5,
        "/data",
        (ListenerSettings("PUBLIC", Address("127.0.0.1", 9005), flag="--public"),),
        ListenerSettings("METRICS", Address("127.0.0.1", 9008), may_move=True, flag="--metrics"),
        controllers=(Address("sc", 9004),),
        private=ListenerSettings("PRIVATE", Address("127.0.0.1", 9006), flag="--private"),
    )


def test_everything_can_be_given() -> None:
    given = _given(
        id=2147483647,
        sc="a:1,b:2",
        data="/data",
        public=["0.0.0.0:9005=outside:19005"],
        private="0.0.0.0:9006=inside:9006",
        metrics="off",
        rack="zone a",
        broker={"num.partitions": 2},
    )
    assert read_settings(given) == SpuSettings(
        2147483647,
        "/data",
        (ListenerSettings("PUBLIC", Address("0.0.0.0", 9005), Address("outside", 19005), flag="--public"),),
        None,
        "zone a",
        {"num.partitions": "2"},
        (Address("a", 1), Address("b", 2)),
        ListenerSettings("PRIVATE", Address("0.0.0.0", 9006), Address("inside", 9006), flag="--private"),
    )


@pytest.mark.parametrize(
    ("merged", "sentence"),
    [
        ({}, "--id is missing: give the SPU's id, as it is registered at the Streaming Controller"),
        ({"id": 1}, "--sc is missing: give HOST:PORT, the private address of the Streaming Controller"),
        ({"id": -1, "sc": "h:1"}, "--id -1: expected a number from 0 to 2147483647"),
        ({"id": 2147483648, "sc": "h:1"}, "--id 2147483648: expected a number from 0 to 2147483647"),
        ({"id": 1, "sc": "h"}, "--sc: 'h' is not HOST:PORT with a port from 1 to 65535"),
        ({"id": 1, "sc": ["a:1", "b:0"]}, "--sc: 'b:0' is not HOST:PORT with a port from 1 to 65535"),
        ({"id": 1, "sc": "h:1", "private": "h"}, "--private: 'h' is not HOST:PORT with a port from 0 to 65535"),
        ({"id": 1, "sc": "h:1", "rack": ""}, "--rack: the name is empty; leave the option out if the SPU has no rack"),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(merged: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings(_given(**merged))
    assert str(refused.value) == sentence


def test_the_command_refuses_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "spu", "--id", "x", "--sc", "h:1"]) == 2
    assert capsys.readouterr() == ("", "tailrace serve spu: --id x: expected a number from 0 to 2147483647\n")


def test_flags_are_named_as_their_settings_are() -> None:
    parser = argparse.ArgumentParser()
    configure(parser)
    parsed = vars(parser.parse_args([]))
    assert parsed == {
        "id": None,
        "sc": None,
        "data": None,
        "public": None,
        "private": None,
        "metrics": None,
        "published": None,
        "rack": None,
        "config": None,
        "set": [],
        "log_level": None,
        "log_format": None,
        "insecure": None,
        "until_input_ends": False,
    }
