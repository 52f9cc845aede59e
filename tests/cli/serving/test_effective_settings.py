import pytest

from tailrace.cli.serving.effective_settings import KINDS
from tailrace.cli.serving.given_settings import GivenSettings


def test_every_setting_of_a_server_is_shown() -> None:
    for kind in KINDS.values():
        values = kind.read(GivenSettings({"data": "/d", **kind.placeholders}, []))
        assert set(values) == kind.names


@pytest.mark.parametrize(
    ("kind", "name", "given", "shown"),
    [
        ("up", "public", "h:1=g:2,h:3", "h:1=g:2,h:3"),
        ("up", "public", None, "127.0.0.1:9005,127.0.0.1:9092"),
        ("up", "metrics", "off", "off"),
        ("up", "metrics", None, "127.0.0.1:9008, or a free port"),
        ("up", "topic", ["a:2", "b"], "a:2,b"),
        ("sc", "replace-after", None, "forever"),
        ("sc", "replace-after", "60", "60"),
        ("spu", "sc", "h:1,g:2", "h:1,g:2"),
    ],
)
def test_a_value_is_shown_as_it_would_be_typed(kind: str, name: str, given: object, shown: str) -> None:
    server = KINDS[kind]
    values = {"data": "/d", **server.placeholders} | ({} if given is None else {name: given})
    assert server.read(GivenSettings(values, []))[name] == shown
