import pytest

from tailrace.cli.groups.group_options import members_text, raise_the_first
from tailrace.client.group_facts import Member
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.protocol.error_codes import ErrorCode


def test_of_several_that_were_refused_the_first_is_named() -> None:
    here, there = Partition("orders", 0), Partition("orders", 1)
    raise_the_first("nothing happened", {here: None, there: None})
    refused = RefusedError("UNKNOWN_MEMBER_ID", ErrorCode.UNKNOWN_MEMBER_ID)
    with pytest.raises(
        RefusedError, match=r"^nothing happened: orders/1: the group has members, and only they may commit$"
    ):
        raise_the_first("nothing happened", {here: None, there: refused})


def test_of_many_members_some_are_named() -> None:
    members = [Member(f"m-{number}", "app", "/10.0.0.7") for number in range(7)]
    assert members_text(members[:2]) == "m-0 (app at 10.0.0.7), m-1 (app at 10.0.0.7)"
    assert members_text(members).endswith("m-4 (app at 10.0.0.7) and 2 more")
