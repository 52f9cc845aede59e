"""A second `tailrace up` on a machine: its ready line and a hint say how commands reach it, and not the first one."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cluster import READY_LINE, READY_SECONDS_MAX
from containers.namespaces import Machine, Namespace, programs
from waiting import wait_until


@contextmanager
def _up(host: Namespace, directory: Path, *words: str) -> Iterator[tuple[str, str, str]]:
    """Runs `up`, and yields its SC, its data directory, and what it says on standard error."""
    directory.mkdir()
    output, errors = directory / "output", directory / "errors"
    with output.open("wb") as out, errors.open("wb") as err:
        up = subprocess.Popen(
            host.inside(["tailrace", "up", "--data", str(directory / "its data"), *words]),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=programs(),
        )
    try:
        wait_until(lambda: READY_LINE.search(output.read_text()), READY_SECONDS_MAX, "the cluster is ready")
        ready = READY_LINE.search(output.read_text())
        assert ready is not None
        yield ready[2], ready[3], errors.read_text()
    finally:
        up.terminate()
        up.wait()


def test_a_second_cluster_says_how_commands_reach_it(machine: Machine, tmp_path: Path) -> None:
    with ExitStack() as running:
        _check(machine.host, tmp_path, running)


def _check(host: Namespace, tmp_path: Path, running: ExitStack) -> None:
    first, data, said = running.enter_context(_up(host, tmp_path / "first"))
    assert first == "127.0.0.1:9003"
    assert data == f"'{tmp_path / 'first' / 'its data'}'"
    assert "export" not in said

    second, _, said = running.enter_context(_up(host, tmp_path / "second", "--public", "127.0.0.1:9192"))
    assert second != first
    hint, metrics = [line for line in said.splitlines() if line.startswith("tailrace up: ")]
    assert metrics.startswith("tailrace up: port 9008 is in use, so the metrics of SPU 1 are at another port")
    assert hint.startswith("tailrace up: port 9003 is in use")
    assert f"--sc {second}" in hint
    assert hint.endswith(f"export TAILRACE_SC={second}")

    def run(*words: str, **environment: str) -> str:
        command = host.inside(["tailrace", *words])
        return subprocess.run(command, env=programs() | environment, check=True, capture_output=True, text=True).stdout

    run("topic", "create", "orders", TAILRACE_SC=second)
    assert "orders" in run("topic", "list", "--sc", second)
    assert "orders" not in run("topic", "list")
