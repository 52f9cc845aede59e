"""What `tailrace doctor` says about access rules."""

import pytest
from authorized_spu import ANONYMOUS, authorized_spu, rule
from spus import SC_PUBLIC, RunningSpu, running_spu
from structlog.testing import capture_logs

from tailrace.cli.health.access_checks import Access, access_findings, access_of, listening_addresses
from tailrace.cli.health.findings import Finding, Level
from tailrace.cli.health.server_visits import Target, Visit
from tailrace.client.sc_client import ScClient
from tailrace.runtime.network import Address
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import Permission
from tailrace.security.acls.acl_codes import ResourceType as Res
from tailrace.security.records.acl_record import AclRecord

ALICE = rule(Res.TOPIC, Op.READ, who="User:alice")


HERE, THERE = Address("127.0.0.1", 9092), Address("10.0.0.7", 9092)


def judged(*rules: AclRecord) -> Finding:
    (finding,) = access_findings(Access(rules), [THERE], logs_in=True)
    return finding


def test_nothing_is_said_about_unknown_rules() -> None:
    assert access_findings(None, [THERE], logs_in=False) == []


@pytest.mark.parametrize(
    ("addresses", "logs_in", "level", "text"),
    [
        ([HERE], False, Level.OK, "every program on this machine may read, write and delete everything"),
        ([HERE, THERE], False, Level.WARNING, "everybody who reaches 10.0.0.7:9092 may read, write and delete"),
        ([HERE, THERE], True, Level.OK, "each user that can log in may do everything"),
    ],
)
def test_without_an_authorizer_everything_is_open(
    addresses: list[Address], logs_in: bool, level: Level, text: str
) -> None:
    (finding,) = access_findings(Access(is_enforced=False), addresses, logs_in=logs_in)
    assert finding.level is level
    assert text in finding.text and finding.next_step


def test_a_server_that_does_not_say_where_it_listens_counts_with_its_address() -> None:
    visits = [Visit(Target(1, THERE)), Visit(Target(2, HERE), fault="nothing responds")]
    assert listening_addresses(visits) == [THERE]


def test_rules_for_single_users_are_fine() -> None:
    finding = judged(ALICE, rule(Res.TOPIC, Op.WRITE, who="User:*", permission=Permission.DENY))
    assert (finding.level, finding.text) == (Level.OK, "Of 2 access rules, none allows anything to everybody.")


def test_rules_for_everybody_are_named() -> None:
    finding = judged(ALICE, rule(Res.TOPIC, Op.READ, "*", who="User:*"), rule(Res.GROUP, Op.ALL))
    assert finding.level is Level.WARNING
    assert "2 apply to everybody" in finding.text
    assert "allow User:* to read all topics" in finding.text
    assert "allow User:ANONYMOUS to do everything with group group" in finding.text


async def test_the_sc_is_asked_for_its_rules(autojump_clock: object) -> None:
    with capture_logs():
        for settings, expected in (({"super_users": ANONYMOUS}, Access()), ({}, None)):
            async with authorized_spu(**settings) as authorized:
                assert await _asked(authorized.running) == expected
        async with running_spu() as running:
            assert await _asked(running) == Access(is_enforced=False)


async def _asked(running: RunningSpu) -> Access | None:
    client = ScClient(running.world.network, [SC_PUBLIC])
    try:
        return await access_of(client)
    finally:
        client.close()
