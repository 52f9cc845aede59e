import argparse
import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import structlog
import trio

from tailrace.cli.serving import serving
from tailrace.cli.serving.given_settings import GivenSettings
from tailrace.cli.serving.serving import (
    COMMON_NAMES,
    CannotServeError,
    LogSettings,
    add_common_flags,
    announce,
    log_settings,
    run_server,
)
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.network import Address
from tailrace.runtime.process import ServerStop
from tailrace.runtime.seams import Seams, real_seams
from tailrace.runtime.settings import ListenerSettings, SettingsError
from tailrace.server.listening import listen


def _arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_common_flags(parser, public="h:1", metrics="h:2")
    return parser.parse_args(words)


async def _serve(settings: str, seams: Seams, stop: ServerStop) -> None:
    structlog.get_logger().info("server_started", settings=settings)
    announce(f"server={settings}")
    await trio.lowlevel.checkpoint()


def test_a_server_says_one_line_on_standard_output_and_logs_on_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = _arguments("--data", "here", "--log-format", "json")
    assert run_server("serve", arguments, COMMON_NAMES, lambda given: given.required("data", ""), _serve) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("ready server=here in ")
    assert captured.out.endswith(" ms\n")
    assert '"event": "server_started"' in captured.err


def test_a_server_goes_on_whose_line_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError), open(writing, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert run_server("serve", _arguments(), COMMON_NAMES, lambda given: "x", _serve) == 0
        monkeypatch.undo()


@pytest.fixture
def gc_threshold() -> Iterator[None]:
    """Restores when the garbage collector runs."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("gc_threshold")
def test_the_garbage_collector_looks_at_few_objects_in_one_go_while_a_server_keeps_many() -> None:
    announce("x")
    looked_at = []

    def note(phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            looked_at.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))

    gc.callbacks.append(note)
    try:
        kept = [[number] for number in range(300_000)]
    finally:
        gc.callbacks.remove(note)
    assert len(looked_at) > len(kept) // 10_000, "the collector runs"
    assert max(looked_at) < 40_000


def test_the_log_level_counts(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = _arguments("--log-level", "error")
    assert run_server("serve", arguments, COMMON_NAMES, lambda given: "x", _serve) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), {"send_buffer_bytes": 256 << 10, "waits_awake": True}),
        (("--set", "socket.send.buffer.bytes=-1"), {"send_buffer_bytes": -1, "waits_awake": True}),
        (("--set", "socket.wait.awake=false"), {"send_buffer_bytes": 256 << 10, "waits_awake": False}),
    ],
)
def test_the_network_is_as_the_configs_say(
    words: Sequence[str], wanted: Mapping[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Mapping[str, object]] = []

    def noting(*, send_buffer_bytes: int, waits_awake: bool) -> Seams:
        taken.append({"send_buffer_bytes": send_buffer_bytes, "waits_awake": waits_awake})
        return real_seams(send_buffer_bytes=send_buffer_bytes, waits_awake=waits_awake)

    monkeypatch.setattr(serving, "real_seams", noting)
    assert run_server("serve", _arguments(*words), COMMON_NAMES, lambda given: "x", _serve) == 0
    assert taken == [wanted]


class OddError(Exception):
    pass


@pytest.mark.parametrize(("kind", "status"), [(SettingsError, 2), (CannotServeError, 1), (OddError, 1)])
def test_what_cannot_start_says_so_in_one_sentence(
    kind: type[Exception], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refuse(settings: str, seams: Seams, stop: ServerStop) -> None:
        async with trio.open_nursery():
            raise kind("there is a reason")

    assert run_server("serve", _arguments(), COMMON_NAMES, lambda given: "x", refuse, (OddError,)) == status
    assert capsys.readouterr() == ("", "tailrace serve: there is a reason\n")


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])

        async def take_it_too(settings: str, seams: Seams, stop: ServerStop) -> None:
            await listen(seams.network, ListenerSettings("PUBLIC", address, flag="--public"))

        assert run_server("serve", _arguments(), COMMON_NAMES, lambda given: "x", take_it_too) == 1
    said = capsys.readouterr().err
    assert said.startswith("tailrace serve: cannot listen on 127.0.0.1:")
    assert f": the address is in use by process {os.getpid()} (" in said
    assert said.endswith(f"): stop it with `kill {os.getpid()}`, or choose another address with --public HOST:PORT\n")


def test_settings_are_refused_before_anything_starts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (["--config", "/nowhere"], ["--set", "num.partitions"], ["--set", "no.such.setting=1"]):
        assert run_server("serve", _arguments(*words), COMMON_NAMES, lambda given: "x", _serve) == 2
        (sentence,) = capsys.readouterr().err.splitlines()
        assert sentence.startswith("tailrace serve: ")


def test_an_error_of_ours_is_no_sentence() -> None:
    async def fail(settings: str, seams: Seams, stop: ServerStop) -> None:
        raise OddError("a bug")

    with pytest.raises(ExceptionGroup) as raised:
        run_server("serve", _arguments(), COMMON_NAMES, lambda given: "x", fail)
    assert isinstance(first_error(raised.value), OddError)


def test_log_settings() -> None:
    assert log_settings(GivenSettings({}, [])) == LogSettings("info", None)
    assert log_settings(GivenSettings({"log-level": "debug", "log-format": "json"}, [])) == LogSettings("debug", "json")
    with pytest.raises(SettingsError, match="--log-format yaml"):
        log_settings(GivenSettings({"log-format": "yaml"}, []))


def test_an_interrupt_before_signals_are_listened_to_is_no_group_of_errors() -> None:
    async def interrupted(settings: str, seams: Seams, stop: ServerStop) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_server("serve", _arguments(), COMMON_NAMES, lambda given: "x", interrupted)


class StoppableServer:
    def __init__(self) -> None:
        self.stopped = trio.Event()

    def stop(self) -> None:
        self.stopped.set()


ASKING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.usefixtures("hangups_count")
@pytest.mark.parametrize("asked", ASKING)
def test_the_first_signal_asks_and_the_second_does_not_wait(asked: signal.Signals) -> None:
    server = StoppableServer()

    async def serve(settings: str, seams: Seams, stop: ServerStop) -> None:
        stop.server = server
        os.kill(os.getpid(), asked)
        await server.stopped.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    assert run_server("serve", _arguments(), COMMON_NAMES, lambda given: "x", serve) == 0


@pytest.mark.usefixtures("hangups_count")
@pytest.mark.parametrize("asked", ASKING)
def test_a_start_is_ended_by_the_first(asked: signal.Signals) -> None:
    async def serve(settings: str, seams: Seams, stop: ServerStop) -> None:
        os.kill(os.getpid(), asked)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)

    assert run_server("serve", _arguments(), COMMON_NAMES, lambda given: "x", serve) == 0
