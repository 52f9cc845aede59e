"""The steps of README.md and docs/first-day.md, as they are written there."""

import re
from collections.abc import Callable

from waiting import wait_until

from .newcomer import Newcomer, Running
from .written_commands import commands, commands_in_table, programs

README = "README.md"
PAGE = "docs/first-day.md"
PARCELS = {str(number) for number in range(1, 21)}
SECONDS_MAX = 60
DEVELOPMENT_TOOLS = ("pytest", "ruff", "mypy", "pyspark")


class _Open:
    """The terminals that stay open from step to step."""

    up: Running


def make_up(newcomer: Newcomer) -> None:
    """`make up` installs what the broker needs, shows that it works, and starts a cluster"""
    first, *_ = commands(README, "Start")
    assert first == "make up\n"
    # This step downloads packages through the machine's network. The broker listens in the newcomer's network.
    installed = newcomer.install("make .venv/.runs")
    assert installed.status == 0, installed
    assert "Collecting trio" in installed.output, installed
    for tool in DEVELOPMENT_TOOLS:
        assert not (newcomer.sources / ".venv" / "bin" / tool).exists(), tool
    _Open.up = newcomer.start(first.strip())
    _Open.up.wait_for("ready bootstrap=127.0.0.1:9005,127.0.0.1:9092")


def write_and_read(newcomer: Newcomer) -> None:
    """README: write and read a record in a second terminal"""
    (block,) = commands(README, "Write and read a record")
    assert "order 1" in newcomer.run(f"set -e\n{block}").output


def first_records(newcomer: Newcomer) -> None:
    """First day: records with the command line and with kafka-python"""
    command_line, *_ = commands(PAGE, "First records")
    newcomer.run(f"set -e\n{command_line}".replace("topic create orders", "topic list"))
    kafka_python, *_ = programs(PAGE, "First records")
    installed = newcomer.install("pip install --quiet kafka-python")
    assert installed.status == 0, installed
    seen = newcomer.run("python -W ignore -", given=kafka_python).output
    assert "order 2" in seen, seen


def groups(newcomer: Newcomer) -> None:
    """First day: two consumers share the work, and one takes over"""
    create, send, describe, *_ = commands(PAGE, "Consumers that share the work")
    (reader,) = programs(PAGE, "Consumers that share the work")
    (newcomer.sources / "reader.py").write_text(reader)
    newcomer.run(create)
    one, two = (newcomer.start("python -W ignore reader.py") for _ in range(2))
    newcomer.run(send)
    wait_until(lambda: _parcels(one.output + two.output) == PARCELS, SECONDS_MAX, "the two have read everything")
    one.interrupt()
    newcomer.run(send)
    wait_until(lambda: _parcels(two.output) == PARCELS, SECONDS_MAX, "the second one has taken over")
    shown = newcomer.run(f"set -e\n{describe}").output
    assert "parcels" in shown, shown
    two.interrupt()


def look_at_the_cluster(newcomer: Newcomer) -> None:
    """First day: every command that looks at the cluster"""
    for command in commands_in_table(PAGE, "Look at the cluster"):
        if "--follow" in command:
            following = newcomer.start(command)
            following.wait_for("order 1")
            assert following.interrupt().status == 0
        else:
            assert newcomer.run(command).output.strip(), command


def stop_and_start(newcomer: Newcomer) -> None:
    """First day: Ctrl-C stops the cluster, and the next start finds every record"""
    stopped = _Open.up.interrupt()
    assert "Traceback" not in stopped.errors, stopped
    assert "spu_lost" not in stopped.errors and '"level": "error"' not in stopped.errors, stopped
    _Open.up = newcomer.start("tailrace up")
    _Open.up.wait_for("ready ")
    assert "order 1" in newcomer.run("tailrace consume orders").output
    lines = _Open.up.errors.splitlines()
    assert len(lines) <= 20, f"the start of a small cluster logs {len(lines)} lines"
    _Open.up.interrupt()


def _parcels(printed: str) -> set[str]:
    return set(re.findall(r"b'parcel (\d+)'", printed))


PAGES: tuple[Callable[[Newcomer], None], ...] = (
    make_up,
    write_and_read,
    first_records,
    groups,
    look_at_the_cluster,
    stop_and_start,
)
