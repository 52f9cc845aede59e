"""Does what docs/triggers.md says: writes its files, and runs every command in the order of the page."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import READY_LINE, Server, tailrace
from waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "triggers.md").read_text()
SECONDS_MAX = 60
STAYING = "tailrace trigger run"
"""How a command begins that runs until Ctrl-C."""
READY = re.compile(r"ready ")
FREE = ("--public", "127.0.0.1:0", "--sc", "127.0.0.1:0", "--sc-private", "127.0.0.1:0", "--private", "127.0.0.1:0")

REPLAY = "tailrace trigger dead-letters replay orders.billing.dead\n"
LIST = "tailrace trigger dead-letters list orders.billing.dead || true"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(*languages: str) -> list[str]:
    """Returns the blocks of the page in these languages, in order."""
    return [text for language, text in _BLOCK.findall(PAGE) if language in languages]


class Reader:
    """A person who follows the page in a directory with a cluster of their own."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        self._environment = environment
        self._replica: Server | None = None
        self.output = ""
        """What the last command has printed."""

    def write(self, text: str) -> None:
        """Saves a file under the name that its first line says."""
        (self._directory / text.partition("\n")[0].removeprefix("# ")).write_text(text)

    def edit(self, name: str, before: str, after: str) -> None:
        path = self._directory / name
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, after))

    def run(self, command: str) -> str:
        """Runs a block of commands, which must succeed, and returns what they print."""
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert done.returncode == 0 and "Traceback" not in done.stderr, f"$ {command}\n{done.stdout}{done.stderr}"
        self.output = done.stdout
        return done.stdout

    def start_replica(self, command: str) -> None:
        """Runs a command that stays in the foreground, as in another terminal."""
        self.stop_replica()
        self._replica = Server(self._directory, "replica", READY)
        settings = [f"{name}={value}" for name, value in self._environment.items()]
        self._replica.start(["env", "-C", str(self._directory), *settings, *shlex.split(command)])

    def stop_replica(self) -> None:
        """Presses Ctrl-C in the other terminal."""
        if self._replica is not None and self._replica.is_running:
            self._replica.signal(signal.SIGINT)
            assert self._replica.wait() == 0, self._replica.last_output()
        self._replica = None

    def close(self) -> None:
        if self._replica is not None:
            self._replica.kill()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    up = Server(tmp_path / "up", "up", READY_LINE)
    ready = up.start(tailrace("up", "--data", str(tmp_path / "data"), "--metrics", "off", *FREE))
    programs = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TAILRACE_BOOTSTRAP": "",
        "TAILRACE_SC": ready[2],
    }
    (tmp_path / "work").mkdir()
    reader = Reader(tmp_path / "work", environment)
    try:
        yield reader
        assert up.stop() == 0, up.last_output()
    finally:
        reader.close()
        up.kill()


def invoices(reader: Reader) -> None:
    assert "invoices" in reader.output and "60" in reader.output, reader.output


def one_invoice(reader: Reader) -> None:
    assert '"total":60' in reader.output, reader.output


def all_shards(reader: Reader) -> None:
    (member,) = json.loads(reader.output.partition("]")[0] + "]")
    assert (member["member_id"], member["shards"]) == ("replica1", "0-11"), reader.output


def three_shares(reader: Reader) -> None:
    def are_shared() -> bool:
        members = json.loads(reader.run("tailrace trigger state orders"))
        shares = {each["member_id"]: each["shards"] for each in members}
        return set(shares) == {"replica1", "replica2", "replica3"} and set(shares.values()) == {"0-3", "4-7", "8-11"}

    wait_until(are_shared, SECONDS_MAX, "the replicas share the shards")


def the_letter(reader: Reader) -> None:
    assert "KeyError: 'price'" in reader.output and "billing.py" in reader.output, reader.output


def what_moves(reader: Reader) -> None:
    explain = "tailrace trigger explain bill"
    wait_until(
        lambda: "12 shards make progress; no record waits" in reader.run(explain),
        SECONDS_MAX,
        "all shards make progress",
    )


def the_replay(reader: Reader) -> None:
    assert re.search(r"^orders +1$", reader.output, re.MULTILINE), reader.output
    total = "tailrace consume invoices --follow --count 2 --values"
    assert '"total":0' in reader.run(total)


CHECKS: dict[str, Callable[[Reader], None]] = {
    "tailrace trigger invoke billing.py": invoices,
    "tailrace consume invoices": one_invoice,
    "tailrace trigger state orders\ntailrace group": all_shards,
    "tailrace trigger describe bill\ntailrace trigger state": three_shares,
    "tailrace trigger dead-letters list": the_letter,
    REPLAY: the_replay,
    "tailrace trigger explain bill\n": what_moves,
}
"""What a command must print, by text in its block."""


@pytest.mark.timeout(240)
def test_every_command_of_the_page_does_what_the_page_says(reader: Reader) -> None:
    for text in blocks("python", "yaml"):
        reader.write(text)
    checked = set()
    for command in blocks(""):
        if not command.startswith(("tailrace ", "echo ")):
            continue
        if command.startswith(STAYING):
            reader.start_replica(command)
            continue
        if "dead-letters list" in command:
            wait_until(lambda: "KeyError" in reader.run(LIST), SECONDS_MAX, "the record is a dead letter")
        if REPLAY in command:
            reader.edit("billing.py", 'order["price"]', 'order.get("price", 0)')
        if "trigger deploy" in command:
            reader.stop_replica()
        reader.run(command)
        for text in CHECKS:
            if text in command:
                CHECKS[text](reader)
                checked.add(text)
    assert checked == set(CHECKS)


def test_the_unit_test_of_the_page_passes(tmp_path: Path) -> None:
    for text in blocks("python"):
        (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_billing.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout
