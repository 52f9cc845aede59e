import pytest

from tailrace.cli.group_commands import members_text, named_topic, raise_the_first, reason_of
from tailrace.cli.group_facts import Member, Partition
from tailrace.cli.sc_commands import UsageError
from tailrace.cli.server_connection import RefusedError
from tailrace.protocol.error_codes import ErrorCode


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
    with pytest.raises(UsageError, match="it takes TOPIC, or TOPIC:0,1"):
        named_topic(text)


def test_an_error_that_comes_as_a_code_is_put_into_words() -> None:
    assert reason_of(RefusedError("NON_EMPTY_GROUP", ErrorCode.NON_EMPTY_GROUP)) == "it has members"
    assert reason_of(RefusedError("it said more", ErrorCode.NON_EMPTY_GROUP)) == "it said more"
    assert reason_of(RefusedError("INVALID_REQUEST", ErrorCode.INVALID_REQUEST)) == "INVALID_REQUEST"
    assert reason_of(RefusedError("error 9999", 9999)) == "error 9999"


def test_of_several_that_were_refused_the_first_is_named() -> None:
    here, there = Partition("orders", 0), Partition("orders", 1)
    raise_the_first("nothing happened", {here: None, there: None})
    refused = RefusedError("UNKNOWN_MEMBER_ID", ErrorCode.UNKNOWN_MEMBER_ID)
    with pytest.raises(RefusedError, match=r"^nothing happened: orders/1: it has members, who alone may commit$"):
        raise_the_first("nothing happened", {here: None, there: refused})


def test_of_many_members_some_are_named() -> None:
    members = [Member(f"m-{number}", "app", "/10.0.0.7") for number in range(7)]
    assert members_text(members[:2]) == "m-0 (app at 10.0.0.7), m-1 (app at 10.0.0.7)"
    assert members_text(members).endswith("m-4 (app at 10.0.0.7) and 2 more")
