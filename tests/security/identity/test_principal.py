"""Principals and their texts."""

import pytest

from tailrace.security.identity.principal import ANONYMOUS, Principal, PrincipalError, parse_principal


@pytest.mark.parametrize("text", ["User:alice", "User:CN=alice,O=a:b", "User:*"])
def test_a_text_becomes_a_principal_and_a_text_again(text: str) -> None:
    assert str(parse_principal(text)) == text


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:", ":"])
def test_other_texts_are_refused_with_the_form_that_is_right(text: str) -> None:
    with pytest.raises(PrincipalError, match="write it as User:NAME"):
        parse_principal(text)


def test_the_anonymous_principal_has_the_name_that_kafka_gives_it() -> None:
    assert Principal("User", "ANONYMOUS") == ANONYMOUS


def test_only_servers_are_servers() -> None:
    assert Principal("Server", "spu-1").is_server
    assert not Principal("User", "spu-1").is_server
