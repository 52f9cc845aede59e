from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tailrace.cli.health.doctor_checks import (
    address_findings,
    certificate_findings,
    clock_findings,
    clock_offset_ms,
    disk_findings,
    limit_findings,
    link_findings,
    outside_addresses,
    outside_findings,
    version_findings,
)
from tailrace.cli.health.findings import Finding
from tailrace.cli.health.server_visits import SC_ID, Target, Visit
from tailrace.protocol.internal.describe_server import (
    DescribeServerResponse,
    Library,
    ServerCertificate,
    ServerListener,
)
from tailrace.runtime.network import Address

GB = 10**9
ONE, TWO = Address("127.0.0.1", 9005), Address("127.0.0.1", 9015)


def described(spu: int, **changes: Any) -> DescribeServerResponse:
    listeners = [ServerListener("PUBLIC", "127.0.0.1", 9005 + 10 * spu)]
    usual = DescribeServerResponse(
        spu, "cluster", 10_000, "1.0", "3.11.7", [Library("trio", "0.30")], listeners, 10, 65536, GB, 8 * GB, "/data"
    )
    return replace(usual, disk_bytes=100 * GB, disk_free_bytes=50 * GB, **changes)


def visit(spu: int, address: Address = ONE, **changes: Any) -> Visit:
    return Visit(Target(spu, address), described(spu, **changes), "", 9_990, 10_010, {spu: address})


def levels_and_texts(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(each.level.value, each.text) for each in findings]


def test_addresses_that_lead_to_their_spus_are_fine() -> None:
    assert levels_and_texts(address_findings([visit(SC_ID), visit(1), visit(2, TWO)], "cluster")) == [
        (
            "ok",
            "From this machine, each address that clients are told leads to its SPU: "
            "127.0.0.1:9005 and 127.0.0.1:9015.",
        )
    ]


@pytest.mark.parametrize(
    ("visited", "text"),
    [
        (
            Visit(Target(1, ONE), fault="connection refused. "),
            "Clients are told 127.0.0.1:9005 for SPU 1, which does not work from this machine: connection refused.",
        ),
        (
            Visit(Target(1, ONE), described(2)),
            "Clients are told 127.0.0.1:9005 for SPU 1, and SPU 2 answers there.",
        ),
        (
            Visit(Target(1, ONE), described(SC_ID)),
            "Clients are told 127.0.0.1:9005 for SPU 1, and the SC answers there.",
        ),
        (
            Visit(Target(1, ONE), described(1, cluster_id="other")),
            "Clients are told 127.0.0.1:9005 for SPU 1, and a server of another cluster answers there.",
        ),
    ],
)
def test_a_wrong_address_is_a_problem_with_a_next_step(visited: Visit, text: str) -> None:
    (fault,) = address_findings([visited], "cluster")
    assert (fault.level, fault.text) == ("problem", text)
    assert fault.next_step


def test_a_cluster_without_addresses_has_a_problem() -> None:
    assert levels_and_texts(address_findings([visit(SC_ID)], "cluster")) == [
        ("problem", "Clients are told no address.")
    ]


def test_what_clients_elsewhere_are_told() -> None:
    wildcard = [ServerListener("PUBLIC", "0.0.0.0", 9005)]
    local, everywhere = visit(1), visit(2, TWO, listeners=wildcard)
    ((level, text),) = levels_and_texts(list(outside_findings([visit(SC_ID), local], [])))
    assert (level, text) == (
        "ok",
        "Only clients on the machine of SPU 1 can connect, because nothing else reaches 127.0.0.1.",
    )
    assert list(outside_findings([everywhere], [])) == []
    assert outside_addresses([visit(SC_ID), local, everywhere], "10.0.0.5") == [(2, Address("10.0.0.5", 9005))]

    def told(address: Address) -> list[tuple[str, str]]:
        outside = Visit(Target(2, Address("10.0.0.5", 9005)), described(2), told={2: address})
        return levels_and_texts(list(outside_findings([everywhere], [outside])))

    assert told(Address("10.0.0.5", 9005)) == [
        ("ok", "A client that connects from a container or another host is told 10.0.0.5:9005.")
    ]
    ((level, text),) = told(Address("localhost", 9005))
    assert level == "problem"
    assert text.startswith(
        "A client in a container or on another host is told localhost:9005, which leads it to itself"
    )


def test_followers_without_a_connection_are_named_if_their_leader_is_online() -> None:
    followed = Visit(Target(2, TWO), described(2), unlinked=(1, 3))
    assert levels_and_texts(link_findings([visit(SC_ID), visit(1), followed], [1, 2])) == [
        ("problem", "SPU 2 follows SPU 1 and has no connection to it, so its replicas lag.")
    ]
    assert levels_and_texts(link_findings([visit(1), visit(2, TWO)], [1, 2])) == [
        ("ok", "Every SPU is connected to the SPUs that it follows.")
    ]
    assert link_findings([visit(1)], [1]) == []


def test_clocks() -> None:
    assert clock_offset_ms(visit(1)) == (0, 10)
    assert levels_and_texts(clock_findings([visit(SC_ID), visit(1)])) == [
        ("ok", "The clocks of all servers agree with this machine's within 10 ms.")
    ]
    slow, fast = visit(1, now_ms=8_000), visit(2, now_ms=70_000)
    assert levels_and_texts(clock_findings([slow, fast, visit(3)])) == [
        ("warning", "The clock of SPU 1 is 2.0 s behind that of this machine."),
        ("problem", "The clock of SPU 2 is 60.0 s ahead of that of this machine."),
    ]
    # A slow response says little about the clock.
    assert clock_findings([Visit(Target(1, ONE), described(1, now_ms=12_000), "", 9_000, 13_000)])[0].level == "ok"


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({}, "ok", "Every disk has room: at least 50.0 GB are free."),
        ({"disk_free_bytes": 10 * GB}, "warning", "The disk of SPU 1 (/data) has 10.0 GB free, 10 % of it."),
        ({"disk_free_bytes": GB}, "problem", "The disk of SPU 1 (/data) has 1.0 GB free, 1 % of it."),
        ({"storage_used": 95, "storage_max": 100}, "warning", "SPU 1 has used 95 bytes of the 100 bytes that it may "),
        ({"storage_used": 100, "storage_max": 100}, "problem", "SPU 1 has used 100 bytes of the 100 bytes that it "),
        ({"storage_used": 5, "storage_max": 100}, "ok", "Every disk has room"),
        ({"disk_bytes": -1, "disk_free_bytes": -1}, "ok", "No server uses a disk."),
    ],
)
def test_disks(changes: dict[str, int], level: str, text: str) -> None:
    base = visit(1)
    assert base.description is not None
    (found,) = disk_findings([Visit(base.target, replace(base.description, **changes))])
    assert found.level == level
    assert found.text.startswith(text)


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({}, "ok", "Every server may have at least 65536 open files, and has enough memory."),
        ({"descriptors_max": 1024}, "warning", "SPU 1 may open 1024 files and connections, and has 10 open."),
        ({"descriptors_max": 65536, "descriptors_used": 65000}, "problem", "SPU 1 may open 65536 files"),
        ({"memory_used": 7 * GB}, "warning", "SPU 1 uses 7.0 GB of 8.0 GB of memory."),
        ({"memory_used": 79 * GB // 10}, "problem", "SPU 1 uses 7.9 GB of 8.0 GB of memory."),
        ({"descriptors_max": -1, "memory_max": -1}, "ok", "Every server may have any number of open files"),
    ],
)
def test_limits(changes: dict[str, int], level: str, text: str) -> None:
    (found,) = limit_findings([visit(1, **changes)])
    assert found.level == level
    assert found.text.startswith(text)


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (visit(1, TWO), "2 servers and this command run Tailrace 1.0; the servers have Python 3.11.7 and the same"),
        (visit(1, software_version="2.0"), "Several versions of Tailrace run (1.0: the SC; 2.0: SPU 1)."),
        (
            visit(1, libraries=[Library("trio", "0.31")]),
            "Servers run with different libraries: trio 0.30 and trio 0.31.",
        ),
        (visit(1, python_version="3.12.1"), "Servers run with different libraries: Python 3.11.7 and Python 3.12.1."),
        (Visit(Target(1, ONE)), "SPU 1 cannot describe itself."),
    ],
)
def test_versions(second: Visit, text: str) -> None:
    first, *_ = version_findings([visit(SC_ID), second], "1.0")
    assert first.text.startswith(text)
    assert (first.level == "ok") == text.startswith("2 servers")


@pytest.mark.parametrize(
    ("days", "is_authority", "level", "text"),
    [
        (90, False, "ok", "All certificates are valid for 90 days or more."),
        (29, False, "warning", "The certificate x of SPU 1 expires in 29 days (listeners: PUBLIC and PRIVATE)."),
        (2, True, "problem", "The authority x of SPU 1 expires in 2 days (listeners: PUBLIC and PRIVATE)."),
        (-1, False, "problem", "The certificate x of SPU 1 has expired (listeners: PUBLIC and PRIVATE)."),
    ],
)
def test_certificates(days: int, is_authority: bool, level: str, text: str) -> None:
    expires_ms = 10_000 + days * 86_400_000
    given = [ServerCertificate(name, "x", is_authority, expires_ms) for name in ("PUBLIC", "PRIVATE")]
    assert levels_and_texts(certificate_findings([visit(SC_ID), visit(1, certificates=given)])) == [(level, text)]


def test_without_encryption_nothing_is_said_about_certificates() -> None:
    assert certificate_findings([visit(SC_ID), visit(1)]) == []


def test_a_command_of_another_version_is_named() -> None:
    ((level, text),) = levels_and_texts(version_findings([visit(SC_ID)], "3.0"))
    assert (level, text) == ("warning", "Several versions of Tailrace run (1.0: the SC; 3.0: this command).")


@pytest.mark.parametrize("check", [clock_findings, disk_findings, limit_findings])
def test_servers_that_do_not_describe_themselves_break_no_check(check: Callable[[list[Visit]], list[Finding]]) -> None:
    assert len(check([Visit(Target(1, ONE), fault="connection refused")])) == 1
