import argparse

import pytest

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.options.spu_options import bootstrap_addresses, named_topic
from tailrace.runtime.network import Address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", ("orders", None)),
        ("orders:0", ("orders", [0])),
        ("orders:0,12,3", ("orders", [0, 12, 3])),
        ("orders/7", ("orders", [7])),
    ],
)
def test_a_topic_is_named_with_its_partitions(text: str, expected: tuple[str, list[int] | None]) -> None:
    assert named_topic(text) == expected


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:a", "orders:0,", "orders:-1", "a:b:0"])
def test_what_names_no_topic(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--topic .*: expected TOPIC, or TOPIC:0,1"):
        named_topic(text, "--topic ")


@pytest.mark.parametrize(
    ("bootstrap", "sc", "expected"),
    [
        (None, None, [Address("env", 1)]),
        ("flag:2,flag:3", None, [Address("flag", 2), Address("flag", 3)]),
        (None, "sc:9003", None),
    ],
)
def test_a_flag_beats_the_environment(
    monkeypatch: pytest.MonkeyPatch, bootstrap: str | None, sc: str | None, expected: list[Address] | None
) -> None:
    monkeypatch.setenv("TAILRACE_BOOTSTRAP", "env:1")
    monkeypatch.setenv("TAILRACE_SC", "other:9003")
    assert bootstrap_addresses(argparse.Namespace(bootstrap=bootstrap, sc=sc)) == expected


def test_brokers_and_the_sc_are_not_asked_together() -> None:
    with pytest.raises(UsageError, match="give --bootstrap or --sc, not both"):
        bootstrap_addresses(argparse.Namespace(bootstrap="a:1", sc="b:1"))


def test_without_a_bootstrap_address_the_sc_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_BOOTSTRAP", "")
    assert bootstrap_addresses(argparse.Namespace(bootstrap=None, sc=None)) is None
