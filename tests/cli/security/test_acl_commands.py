"""`tailrace acl` through an SPU and an SC in memory; compat_tests run it against Apache Kafka as well."""

import json

import pytest
from authorized_spu import ANONYMOUS, AuthorizedSpu, authorized_spu
from spus import ADDRESS, SC_PUBLIC
from structlog.testing import capture_logs

from tailrace.cli.main import parse
from tailrace.security.acls.acl_codes import Operation, ResourceType
from tailrace.security.acls.acl_filters import text_of_rule

Capture = pytest.CaptureFixture[str]


async def _run(authorized: AuthorizedSpu, *words: str, through: tuple[str, str] = ("--bootstrap", str(ADDRESS))) -> int:
    arguments = parse(["acl", *words, *through])
    status: int = await arguments.run.__self__.execute(arguments, authorized.running.world.network)
    return status


async def test_rules_are_created_listed_tested_and_deleted(autojump_clock: object, capsys: Capture) -> None:
    with capture_logs():
        async with authorized_spu(super_users=ANONYMOUS) as authorized:

            async def run(*words: str, status: int = 0) -> str:
                assert await _run(authorized, *words) == status
                return capsys.readouterr().out

            assert await run("create", "bob", "read", "--topic", "orders") == (
                "PRINCIPAL  RULE   OPERATION  TYPE   RESOURCE  HOST\nUser:bob   allow  Read       Topic  orders    *\n"
            )
            dry = await run("create", "alice", "all", "--cluster", "--dry-run")
            assert dry.endswith("Nothing was created: leave out --dry-run to do it.\n")
            await run("create", "alice", "write", "describe", "--topic", "orders-*", "--topic", "x", "--group", "g")
            rules = {text_of_rule(each) for each in authorized.spu.cluster.security.acls.values()}
            assert rules == {
                "allow User:bob to read topic orders",
                "allow User:alice to write topics that begin with orders-",
                "allow User:alice to describe topics that begin with orders-",
                "allow User:alice to write topic x",
                "allow User:alice to describe topic x",
                "allow User:alice to describe group g",
            }
            listed = json.loads(await run("list", "--topic", "orders-7", "--output", "json"))
            assert [(each["operation"], each["patternType"]) for each in listed] == [
                ("Write", "Prefixed"),
                ("Describe", "Prefixed"),
            ]
            assert len((await run("list", "--principal", "alice")).splitlines()) == 6
            assert await run("test", "alice", "read", "--topic", "orders", status=1) == (
                "May User:alice read topic orders?\n"
                "No, because no rule allows it.\n"
                "The rule 'allow User:bob to read topic orders' is for User:bob only.\n"
            )
            assert await run("test", "bob", "describe", "--topic", "orders") == (
                "May User:bob describe topic orders?\n"
                "Yes, because there is the rule 'allow User:bob to read topic orders'.\n"
            )
            assert "super.users has the principal" in await run("test", "ANONYMOUS", "alter", "--cluster")
            deleted = await run("delete", "alice", "write", "--topic", "orders-*")
            assert deleted.endswith("Deleted 1 rule.\n")
            assert len(authorized.spu.cluster.security.acls) == 5
            assert await _run(authorized, "delete", "alice", "write", "--topic", "orders-*") == 1
            assert "1 rule did not exist: allow User:alice to write topics" in capsys.readouterr().err


async def test_the_streaming_controller_takes_the_commands_too(autojump_clock: object, capsys: Capture) -> None:
    with capture_logs():
        async with authorized_spu(super_users=ANONYMOUS) as authorized:
            sc = ("--sc", str(SC_PUBLIC))
            assert await _run(authorized, "create", "alice", "read", "--topic", "*", through=sc) == 0
            capsys.readouterr()
            assert await _run(authorized, "test", "alice", "read", "--topic", "orders", through=sc) == 0
            assert "allow User:alice to read all topics" in capsys.readouterr().out


async def test_settings_that_the_servers_hide_are_named(autojump_clock: object, capsys: Capture) -> None:
    with capture_logs():
        async with authorized_spu() as authorized:
            authorized.allow((ResourceType.CLUSTER, Operation.DESCRIBE))
            assert await _run(authorized, "test", "alice", "read", "--topic", "orders") == 1
            assert capsys.readouterr().out == (
                "May User:alice read topic orders?\n"
                "No, because no rule allows it.\n"
                "But the servers do not tell super.users and allow.everyone.if.no.acl.found, which may allow it.\n"
            )


async def test_without_permission_the_commands_are_refused(autojump_clock: object, capsys: Capture) -> None:
    with capture_logs():
        async with authorized_spu() as authorized:
            assert await _run(authorized, "list") == 1
            assert "User:ANONYMOUS may not describe the cluster" in capsys.readouterr().err
            assert await _run(authorized, "create", "a", "read", "--topic", "t") == 1
            assert "User:ANONYMOUS may not alter the cluster" in capsys.readouterr().err
