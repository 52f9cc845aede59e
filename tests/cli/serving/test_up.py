"""Tests what `tailrace up` refuses before it serves; compat_tests start whole clusters with it."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from tailrace.cli.main import main
from tailrace.cli.serving.given_settings import GivenSettings
from tailrace.cli.serving.local_launcher import LocalLauncher
from tailrace.cli.serving.managed_spus import ManagedSpus
from tailrace.cli.serving.serving import CannotServeError
from tailrace.cli.serving.up import metrics_moves, moves, read_settings, serving, with_main_group
from tailrace.controller.key_value.interface import Put
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import Spu, SpuGroup, SpuSpec, SpuType
from tailrace.controller.state.object_codec import ObjectError, decode, encode, key_of
from tailrace.controller.streaming_controller import ScAddresses, StreamingController
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings

MANAGED = ManagedSpus(
    "/data",
    (ListenerSettings("PUBLIC", Address("127.0.0.1", 9005)),),
    ListenerSettings("PRIVATE", Address("127.0.0.1", 9006)),
    None,
    {},
    are_listeners_chosen=False,
)

IMPORTED_WHEN_USED = {
    "difflib",
    "h11",
    "prometheus_client",
    "re2",
    "rich",
    "shtab",
    "sqlite3",
    "tailrace.broker.coordination.coordinated_partition",
    "tailrace.broker.coordination.coordinator_kind",
    "tailrace.broker.groups.coordinator.coordinator",
    "tailrace.broker.descriptions.local_segments",
    "tailrace.client.sc_client",
    "tailrace.controller.key_value.etcd.etcd_store",
    "tailrace.controller.inspection.partition_descriptions",
    "tailrace.controller.inspection.segment_descriptions",
    "tailrace.protocol.messages.create_topics",
    "tailrace.protocol.messages.fetch",
    "tailrace.protocol.messages.metadata",
    "tomllib",
    "yaml",
}


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA", "PUBLIC", "PRIVATE", "SC", "SC_PRIVATE", "SPUS", "METRICS", "LOG_LEVEL", "LOG_FORMAT"):
        monkeypatch.delenv(f"TAILRACE_{name}", raising=False)


def _anywhere(tmp_path: Path) -> list[str]:
    addresses = [word for flag in ("--public", "--private", "--sc", "--sc-private") for word in (flag, "127.0.0.1:0")]
    return ["--data", str(tmp_path / "data"), "--metrics", "off", *addresses]


def _refusal(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int = 2) -> str:
    assert main(["up", *_anywhere(tmp_path), *arguments]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    *_, sentence = captured.err.splitlines()  # after what the log says of the parts that did start
    assert sentence.startswith("tailrace up: ")
    return sentence


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--public", "nowhere"], "--public: 'nowhere' is not HOST:PORT"),
        (["--public", "192.0.2.1:9092=localhost:9092"], "cannot listen on 192.0.2.1:9092: "),
        (["--public", "127.0.0.1:0=:1"], "--public: ':1' is not HOST:PORT"),
        (["--public", "127.0.0.1:0,127.0.0.1"], "--public: '127.0.0.1' is not HOST:PORT"),
        (["--metrics", "on"], "--metrics: 'on' is not HOST:PORT"),
        (["--spus", "0"], "--spus 0: expected a number from 1 to 1000"),
        (["--sc", "nowhere"], "--sc: 'nowhere' is not HOST:PORT"),
        (["--sc", "192.0.2.1:9003"], "cannot listen on 192.0.2.1:9003: "),
        (["--sc-private", "192.0.2.1:9004"], "cannot listen on 192.0.2.1:9004: "),
        (["--private", "192.0.2.1:9006"], "cannot listen on 192.0.2.1:9006: "),
        (["--set", "num.partitions"], "--set num.partitions: expected NAME=VALUE"),
        (["--set", "num.partitons=3"], "num.partitons"),
        (["--set", "num.partitions=three"], "num.partitions"),
        (["--config", "/nowhere/tailrace.toml"], "--config /nowhere/tailrace.toml: No such file"),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(
    arguments: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = 1 if reason.startswith("cannot listen") else 2
    assert reason in _refusal(arguments, tmp_path, capsys, status)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("public = ", "not a TOML file"),
        ("publik = 'h:1'", "the settings file has no setting 'publik'"),
        ("broker = 3", "[broker] must be a table"),
        ("log-level = 'loud'", "--log-level loud: expected one of debug, error, info, warning"),
        ("[broker]\n'num.partitions' = true", "num.partitions"),
    ],
)
def test_a_settings_file_is_checked_as_flags_are(
    content: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text(content)
    assert reason in _refusal(["--config", str(file)], tmp_path, capsys)


@pytest.mark.parametrize(("name", "value"), [("LOG_LEVEL", "loud"), ("LOG_FORMAT", "yaml"), ("SPUS", "two")])
def test_the_environment_is_checked_as_flags_are(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"TAILRACE_{name}", value)
    assert f"{value}: " in _refusal([], tmp_path, capsys)


@pytest.mark.parametrize(("pairs", "expected"), [([], "0"), (["group.initial.rebalance.delay.ms=7"], "7")])
def test_the_first_consumer_waits_for_nobody_unless_it_is_asked_to(pairs: list[str], expected: str) -> None:
    settings = read_settings(GivenSettings({}, pairs))
    for broker in (settings.sc.broker, settings.managed.broker):
        assert broker["group.initial.rebalance.delay.ms"] == expected


def test_configs_that_change_nothing_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--set", "num.io.threads=4", "--set", "num.partitions=4"]
    assert main(["up", *_anywhere(tmp_path), *given, "--public", "192.0.2.1:9092"]) == 1
    first, *others = capsys.readouterr().err.splitlines()
    assert first == "tailrace up: num.io.threads has no effect in Tailrace"
    assert not any("has no effect" in each for each in others)


def test_a_stop_does_not_wait_for_spus_that_are_not_ready_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_instead(launcher: LocalLauncher, private: Address) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(LocalLauncher, "on_controller", stop_instead)
    assert main(["up", "--spus", "2", *_anywhere(tmp_path)]) == 0


def test_a_stop_does_not_wait_for_a_controller_that_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait_for_its_store(controller: StreamingController, task_status: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    monkeypatch.setattr(StreamingController, "run", wait_for_its_store)
    assert main(["up", *_anywhere(tmp_path)]) == 0


def test_outdated_data_is_not_taken_for_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "controller.json").write_text("{}")
    assert "has data of an old version without a Streaming Controller" in _refusal([], tmp_path, capsys, 1)


async def _stored_group(store: MemoryStore) -> SpuGroup:
    entry = await store.get("spu-group/main")
    assert entry is not None
    found = decode(entry.key, entry.value, entry.version)
    assert isinstance(found, SpuGroup)
    return found


async def test_the_group_begins_with_one_spu_that_may_fill_its_disk() -> None:
    store = MemoryStore()
    group = await with_main_group(store, None, MANAGED)
    assert (group.spec.replicas, group.spec.min_id, group.spec.template.size_bytes) == (1, 1, None)
    assert (await _stored_group(store)).spec == group.spec


async def test_the_number_of_spus_is_kept_until_another_is_given() -> None:
    store = MemoryStore()
    await with_main_group(store, 3, MANAGED)
    before = (await store.list("")).revision
    assert (await with_main_group(store, None, MANAGED)).spec.replicas == 3
    assert (await with_main_group(store, 3, MANAGED)).spec.replicas == 3
    assert (await store.list("")).revision == before, "nothing is written when nothing changes"
    assert (await with_main_group(store, 2, MANAGED)).spec.replicas == 2
    assert (await _stored_group(store)).spec.replicas == 2


@pytest.mark.parametrize(
    ("spec", "owner"),
    [
        (SpuSpec(SpuId(2)), "was registered by hand"),
        (SpuSpec(SpuId(2), SpuType.MANAGED, group="other"), "belongs to the group other"),
    ],
)
async def test_an_id_that_somebody_else_has_is_named(spec: SpuSpec, owner: str) -> None:
    store = MemoryStore()
    await store.write([Put(key_of(Spu(spec)), encode(Spu(spec)), 0)])
    with pytest.raises(CannotServeError, match=f"^SPU 2 {owner}: unregister it, or run fewer SPUs$"):
        await with_main_group(store, 2, MANAGED)
    await with_main_group(store, 1, MANAGED)


async def test_the_addresses_of_the_group_and_its_spus_follow_from_the_settings() -> None:
    store = MemoryStore()
    group = await with_main_group(store, 1, MANAGED)
    template = group.spec.template
    spu = Spu(SpuSpec(SpuId(1), SpuType.MANAGED, "a", template.public, template.private, group="main"))
    await store.write([Put(key_of(spu), encode(spu), 0)])
    moved = replace(MANAGED, listeners=(ListenerSettings("PUBLIC", Address("127.0.0.1", 9192)),))
    assert (await with_main_group(store, None, moved)).spec.template.public.port == 9192
    assert (await _stored_group(store)).spec.template.public.port == 9192
    entry = await store.get(key_of(spu))
    assert entry is not None
    found = decode(entry.key, entry.value, entry.version)
    assert isinstance(found, Spu)
    assert (found.spec.public.port, found.spec.rack) == (9192, "a")


async def test_a_group_that_cannot_be_read_is_not_written_over() -> None:
    store = MemoryStore()
    await store.write([Put("spu-group/main", b"not ours", 0)])
    with pytest.raises(ObjectError):
        await with_main_group(store, 2, MANAGED)


def test_what_is_seldom_needed_does_not_slow_the_start_down() -> None:
    """Imports take most of the time of a start."""
    look = "import sys, tailrace.cli.serving.up; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", look], capture_output=True, check=True, text=True).stdout.split()
    assert "tailrace.broker.spu" in imported
    assert not IMPORTED_WHEN_USED & set(imported)


def test_the_ready_line_names_what_belongs_to_the_cluster() -> None:
    told = serving([Address("h", 1), Address("h", 2)], Address("h", 3), "/my data/it's")
    assert shlex.split(told) == ["bootstrap=h:1,h:2", "sc=h:3", "data=/my data/it's"]


def test_only_a_port_of_the_sc_that_was_not_chosen_and_differs_is_reported() -> None:
    usual, other = Address("127.0.0.1", 9003), Address("127.0.0.1", 40000)
    by_default = read_settings(GivenSettings({"data": "/d"}, [])).sc
    chosen = read_settings(GivenSettings({"data": "/d", "sc": "127.0.0.1:0"}, [])).sc
    assert list(moves(by_default, ScAddresses((usual,), usual, None))) == []
    assert list(moves(chosen, ScAddresses((other,), usual, None))) == []
    (hint,) = moves(by_default, ScAddresses((other,), usual, None))
    assert hint.endswith("Give commands --sc 127.0.0.1:40000, or set it once: export TAILRACE_SC=127.0.0.1:40000")


def test_metrics_that_moved_are_reported() -> None:
    assert list(metrics_moves({})) == []
    first, second = metrics_moves({SpuId(2): 9018, SpuId(1): 9008})
    assert first.startswith("port 9008 is in use, so the metrics of SPU 1 are at another port")
    assert second.startswith("port 9018 is in use, so the metrics of SPU 2")


def test_a_closed_cluster_without_its_authority_does_not_start_as_an_open_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / "security").mkdir(parents=True)
    assert "security/ca.pem is missing, and the cluster was closed" in _refusal([], tmp_path, capsys, 1)
