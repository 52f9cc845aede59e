import json
from pathlib import Path

import pytest
import trio
import yaml
from clusters import cluster_of
from public_sc import public_sc, tailrace
from structlog.testing import capture_logs

from tailrace.cli.objects.spu_commands import spu_table
from tailrace.controller.objects.objects import (
    PrivateEndpoint,
    PublicEndpoint,
    PublicListener,
    Spu,
    SpuResolution,
    SpuSpec,
    SpuStatus,
    SpuType,
)
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address

REGISTER = ("spu", "register", "--id", "11", "--public", "one:9005", "--private", "one:9006")

FROM_FILE = ("spu", "register", "--output", "yaml", "--file")


async def test_a_custom_spu_from_registration_to_online(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        assert await tailrace(sc.network, *REGISTER, "--rack", "Zone1") == 0
        assert capsys.readouterr().out == (
            "registered SPU 11; start it with: tailrace serve spu --id 11 --data DIR --sc HOST:9004 "
            "--public one:9005 --private one:9006\n"
        )
        assert await tailrace(sc.network, "spu", "list") == 0
        assert capsys.readouterr().out == (
            "ID  TYPE    GROUP  RACK   STATUS  PUBLIC    PRIVATE\n"
            "11  Custom      -  Zone1  Init    one:9005  one:9006\n"
        )
        await sc.running.connect(11)
        assert await tailrace(sc.network, "spu", "describe", "11") == 0
        assert capsys.readouterr().out == (
            "SPU:              11\n"
            "Type:             Custom\n"
            "Rack:             Zone1\n"
            "Storage:          unlimited\n"
            "Public endpoint:  one:9005\n"
            "Private endpoint: one:9006\n"
            "Status:           Online\n"
            "Incarnation:      incarnation-11\n"
            "Listener PUBLIC:  spu-11:9005 PLAINTEXT\n"
            "Reported private: spu-11:9006 PLAINTEXT\n"
            "Controllers:      unknown: the SPU at spu-11:9005 does not answer: connection refused. "
            "`tailrace spu list` shows which are online\n"
        )
        assert await tailrace(sc.network, "spu", "unregister", "11") == 0
        assert capsys.readouterr().out == "unregistered SPU 11\n"
        assert await tailrace(sc.network, "spu", "list", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == []


async def test_what_the_sc_refuses_is_said_and_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        assert await tailrace(sc.network, *REGISTER) == 0
        assert await tailrace(sc.network, *REGISTER, "--rack", "Zone1") == 1
        assert capsys.readouterr().err == "tailrace spu register: there is an SPU 11 already\n"
        assert await tailrace(sc.network, "spu", "describe", "12") == 1
        assert capsys.readouterr().err == "tailrace spu describe: there is no SPU 12\n"
        assert await tailrace(sc.network, "spu", "unregister", "12") == 1
        assert capsys.readouterr().err == "tailrace spu unregister: there is no SPU 12\n"


async def test_who_registers_again_in_the_same_way_is_not_refused(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        for _ in range(2):
            assert await tailrace(sc.network, *REGISTER) == 0
            assert capsys.readouterr().out.startswith("registered SPU 11; ")
        assert len(sc.running.workflow.local.spus) == 1


def test_where_clients_reach_an_spu_may_be_for_it_to_say() -> None:
    spec = SpuSpec(SpuId(1), public=PublicEndpoint(ingress=()))
    told = SpuStatus(SpuResolution.ONLINE, listeners=(PublicListener("PUBLIC", "one", 9005),))
    silent, talking = spu_table([Spu(spec), Spu(spec, told)]).splitlines()[1:]
    assert silent.split()[-2:] == ["-", "localhost:9006"]
    assert talking.split()[-2:] == ["one:9005", "localhost:9006"]


def test_reasons_are_shown_where_there_are_any() -> None:
    fine = Spu(SpuSpec(SpuId(1)), SpuStatus(SpuResolution.ONLINE))
    full = Spu(SpuSpec(SpuId(2)), SpuStatus(SpuResolution.ONLINE, reason="its storage is full: 9 of 8 bytes"))
    assert "REASON" not in spu_table([fine])
    title, first, second = spu_table([fine, full]).splitlines()
    assert title.endswith("  REASON")
    assert first.endswith("localhost:9006  -")
    assert second.endswith("localhost:9006  its storage is full: 9 of 8 bytes")


async def test_an_spu_with_data_is_unregistered_by_force_only(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await tailrace(sc.network, *REGISTER)
        await sc.running.connect(11)
        await tailrace(sc.network, "topic", "create", "orders", "--wait", "5")
        assert await tailrace(sc.network, "spu", "unregister", "11") == 1
        refusal = capsys.readouterr().err
        assert (
            "SPU 11 holds 1 replica of orders, which would be lost; delete the topics first, or use --force" in refusal
        )
        assert await tailrace(sc.network, "spu", "unregister", "11", "--force") == 0


def _file(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


async def test_the_seeds_spu_is_registered_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = """
spuId: 100
spuType: "Custom"
rack: "Zone1"
storage: {size: 2Gi}
publicEndpoint: {port: 9005, ingress: [{hostname: localhost}], encryption: TLS}
privateEndpoint: {port: 9006, host: localhost, encryption: TLS}
---
spuId: 101
"""
    async with public_sc() as sc:
        assert await tailrace(sc.network, *FROM_FILE, _file(tmp_path / "spu.yaml", document)) == 0
        shown = capsys.readouterr().out
        assert "size: 2Gi" in shown
        await tailrace(sc.network, "spu", "unregister", "100")
        await tailrace(sc.network, "spu", "unregister", "101")
        capsys.readouterr()
        again = "\n---\n".join(json.dumps(each) for each in yaml.safe_load(shown))
        assert await tailrace(sc.network, *FROM_FILE, _file(tmp_path / "again.yaml", again)) == 0
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("spuId: 1\nports: 5\n", "unknown field 'ports'; there are "),
        ("spuId: 1\npublicEndpoint: {port: 70000}\n", "publicEndpoint.port: 70000 is not a port from 0 to 65535"),
        ("kind: topic\nspuId: 1\n", "kind: it is 'topic' and should be 'spu'"),
        ("", "the file has no document"),
        ("spuId: 1\npublicEndpoint: {encryption: SSL}\n", "publicEndpoint.encryption: 'SSL' is not one of PLAINTEXT"),
        ("spuId: 1\nstorage: {logDir: /mylog}\n", "storage.logDir: '/mylog' would have no effect"),
        ("- 1\n", "the document: a list is not a mapping of fields"),
        ("a: [", "line 1, column 5: "),
    ],
)
async def test_what_is_wrong_in_a_file_is_said_and_ends_with_2(
    text: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc() as sc:
        path = _file(tmp_path / "spu.yaml", text)
        assert await tailrace(sc.network, *FROM_FILE, path) == 2
        assert capsys.readouterr().err.startswith(f"tailrace spu register: {path}: {fault}")


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--id", "1"), "give --id, --public and --private, or --file"),
        (("--id", "-1", "--public", "a:1", "--private", "a:2"), "spuId: -1 is not an id from 0 to 2147483647"),
        (("--id", "1", "--public", "a", "--private", "a:2"), "--public: 'a' is not HOST:PORT with a port from 0 to "),
        (
            ("--id", "1", "--public", "0.0.0.0:1", "--private", "a:2"),
            "--public 0.0.0.0:1: give an address",
        ),
        (("--id", "1", "--file", "x"), "--file: write id, endpoints"),
        (("--file", "nowhere.yaml"), "nowhere.yaml: No such file or directory"),
    ],
)
async def test_wrong_usage_needs_no_sc(words: tuple[str, ...], fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        assert await tailrace(sc.network, "spu", "register", *words) == 2
        assert capsys.readouterr().err.startswith(f"tailrace spu register: {fault}")


@pytest.mark.parametrize(
    ("spu_type", "port", "public", "private"),
    [
        (SpuType.CUSTOM, 9005, "one.example:9005", "one.example:9005"),
        (SpuType.CUSTOM, 0, "10.0.0.1:4711", "10.0.0.1:4712"),
        (SpuType.MANAGED, 9005, "10.0.0.1:4711", "10.0.0.1:4712"),
    ],
)
def test_an_spu_is_where_it_was_registered_unless_that_says_no_port_or_nobody_registered_it(
    spu_type: SpuType, port: int, public: str, private: str
) -> None:
    at = PublicEndpoint(port, ("one.example",)), PrivateEndpoint(port, "one.example")
    reports = (PublicListener("PUBLIC", "10.0.0.1", 4711),), Address("10.0.0.1", 4712)
    spu = Spu(SpuSpec(SpuId(1), spu_type, None, *at), SpuStatus(SpuResolution.ONLINE, "first", "store", *reports))
    assert spu_table([spu]).split()[-2:] == [public, private]


def test_a_managed_spu_that_has_not_come_yet_is_nowhere() -> None:
    endpoints = PublicEndpoint(9005, ("one.example",)), PrivateEndpoint(9006, "one.example")
    assert spu_table([Spu(SpuSpec(SpuId(2), SpuType.MANAGED, None, *endpoints))]).split()[-2:] == ["-", "-"]


async def test_a_group_that_waits_for_an_id_does_not_get_the_process_of_the_custom_spu(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a real SC and a real SPU in memory."""
    with capture_logs():
        async with cluster_of(1) as cluster:
            network = cluster.world.network
            create = ("spu-group", "create", "edge", "--min-id", "1", "--sc", "sc:9003")
            assert await tailrace(network, *create) == 0
            assert "its status is Invalid" in capsys.readouterr().out
            unregister = ("spu", "unregister", "1", "--sc", "sc:9003")
            assert await tailrace(network, *unregister) == 1
            assert "the SPU group edge waits for its id" in capsys.readouterr().err
            assert await tailrace(network, *unregister, "--force") == 0
            await trio.sleep(20)
            capsys.readouterr()
            assert await tailrace(network, "spu", "list", "--sc", "sc:9003", "--output", "json") == 0
            (spu,) = json.loads(capsys.readouterr().out)
            assert (spu["spec"]["spuType"], spu["status"]["resolution"]) == ("Managed", "Init")

            # A new process of the SPU is one that somebody has started for the group.
            await cluster.kill_spu(1)
            await cluster.start_spu(1)
            assert await tailrace(network, "spu", "list", "--sc", "sc:9003", "--output", "json") == 0
            (spu,) = json.loads(capsys.readouterr().out)
            assert spu["status"]["resolution"] == "Online"
