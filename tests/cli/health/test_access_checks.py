"""What `tailrace doctor` says about access rules."""

from authorized_spu import ANONYMOUS, authorized_spu, rule
from spus import SC_PUBLIC
from structlog.testing import capture_logs

from tailrace.cli.health.access_checks import access_findings, rules_of
from tailrace.cli.health.findings import Level
from tailrace.client.sc_client import ScClient
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import Permission
from tailrace.security.acls.acl_codes import ResourceType as Res

ALICE = rule(Res.TOPIC, Op.READ, who="User:alice")


def test_without_an_authorizer_nothing_is_said() -> None:
    assert access_findings(None) == []


def test_rules_for_single_users_are_fine() -> None:
    (finding,) = access_findings([ALICE, rule(Res.TOPIC, Op.WRITE, who="User:*", permission=Permission.DENY)])
    assert (finding.level, finding.text) == (Level.OK, "Of 2 access rules, none allows anything to everybody.")


def test_rules_for_everybody_are_named() -> None:
    (finding,) = access_findings([ALICE, rule(Res.TOPIC, Op.READ, "*", who="User:*"), rule(Res.GROUP, Op.ALL)])
    assert finding.level is Level.WARNING
    assert "2 apply to everybody" in finding.text
    assert "allow User:* to read all topics" in finding.text
    assert "allow User:ANONYMOUS to do everything with group group" in finding.text


async def test_the_sc_is_asked_for_its_rules(autojump_clock: object) -> None:
    with capture_logs():
        for settings, expected in (({"super_users": ANONYMOUS}, []), ({}, None)):
            async with authorized_spu(**settings) as authorized:
                client = ScClient(authorized.running.world.network, [SC_PUBLIC])
                assert await rules_of(client) == expected
                client.close()
