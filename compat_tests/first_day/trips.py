"""What newcomers stumbled over. Each step does it again, and expects a way on."""

import json
import re
from collections.abc import Callable

from waiting import wait_until

from .newcomer import Newcomer, Running

FIRST = "127.0.0.1:9092"
SECOND = "127.0.0.1:9192"
SECONDS_MAX = 60


class _Open:
    """The clusters that run from step to step."""

    first: Running
    second: Running


def second_cluster(newcomer: Newcomer) -> None:
    """A second cluster says how to reach it, and commands that name it do not act on the first one"""
    _Open.first = newcomer.start("tailrace up --data first")
    _Open.first.wait_for("ready ")
    _Open.second = newcomer.start(f"tailrace up --data second --public {SECOND}")
    ready = _Open.second.wait_for("ready ")
    sc = re.search(r" sc=(\S+)", ready)
    assert sc is not None, ready
    assert sc[1] != "127.0.0.1:9003" and "/second" in ready, ready
    _Open.second.wait_for(f"export TAILRACE_SC={sc[1]}")
    newcomer.run("tailrace topic create only-in-second", TAILRACE_BOOTSTRAP=SECOND)
    assert "only-in-second" not in newcomer.run("tailrace topic list").output
    for way in ({"TAILRACE_BOOTSTRAP": SECOND}, {"TAILRACE_SC": sc[1]}):
        assert "only-in-second" in newcomer.run("tailrace topic list", **way).output
    refused = newcomer.run("tailrace spu-group list", status=2, TAILRACE_BOOTSTRAP=SECOND)
    assert "TAILRACE_SC" in refused.errors, refused
    _Open.second.interrupt()


def too_few_spus(newcomer: Newcomer) -> None:
    """A topic that needs three SPUs says what is missing, and each command gives the same reason"""
    created = newcomer.run("tailrace topic create three --replication-factor 3", status=4)
    assert "needs 3 SPUs, and 1" in created.errors and "tailrace up --spus 3" in created.errors, created
    again = newcomer.run("tailrace topic create three", status=1)
    assert "needs 3 SPUs, and 1" in again.errors, again
    refused = newcomer.run("echo x | tailrace produce three", status=1)
    assert "waits for more SPUs" in refused.errors, refused
    newcomer.run("tailrace topic alter three --replication-factor 1")
    newcomer.run("echo x | tailrace produce three")


def missing_home(newcomer: Newcomer) -> None:
    """An empty HOME and an empty --data do not put data where it does not belong"""
    before = {path.name for path in newcomer.sources.iterdir()}
    for command, environment in (
        ("env -u HOME tailrace up --public 127.0.0.1:0", {}),
        ("tailrace up --public 127.0.0.1:0", {"HOME": ""}),
        ("tailrace up --public 127.0.0.1:0 --data ''", {}),
    ):
        started = newcomer.start(command, **environment)
        line = started.wait_for("ready ", "tailrace up: ")
        started.interrupt()
        assert f"data={newcomer.sources}" not in line, line
    assert {path.name for path in newcomer.sources.iterdir()} == before


def strange_clients(newcomer: Newcomer) -> None:
    """Clients that speak TLS or HTTP to the port of Kafka are named once, and Ctrl-C is no warning"""
    for _ in range(10):
        newcomer.send(FIRST, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert newcomer.send(FIRST, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").startswith("HTTP/1.1 400")
    _Open.first.wait_for("looks like TLS")
    stopped = _Open.first.interrupt()
    assert stopped.errors.count("request_refused") == 1, stopped
    assert "spu_lost" not in stopped.errors, stopped


def wrong_usage(newcomer: Newcomer) -> None:
    """What cannot work says what to do, with exit status 2 or 3"""
    assert "up " in newcomer.run("tailrace").output
    for command, hint in (
        ("tailrace topik list", "tailrace topic"),
        ("tailrace topic create x --partition-count 3", "--partitions"),
        ("tailrace topic list --sc", "--sc"),
    ):
        assert hint in newcomer.run(command, status=2).errors
    for command in ("topic list", "topic list --bootstrap 127.0.0.1:1", "consume orders --bootstrap 127.0.0.1:1"):
        away = newcomer.run(f"tailrace {command}", status=3)
        assert "does not answer" in away.errors and ("tailrace up" in away.errors or "--bootstrap" in away.errors), away
    _Open.first = newcomer.start("tailrace up --data first")
    _Open.first.wait_for("ready ")
    (newcomer.sources / "a-file").write_text("")
    for options, status, hint in (
        ("--data second --public 127.0.0.1:9092", 1, "--public"),
        ("--data first --public 127.0.0.1:0", 1, "in use by"),
        ("--data a-file --public 127.0.0.1:0", 2, "choose a directory"),
    ):
        refused = newcomer.run(f"tailrace up {options}", status=status)
        assert hint in refused.errors, refused
    as_sc = newcomer.run("tailrace spu list --sc 127.0.0.1:9005", status=3)
    assert "SPU" in as_sc.errors or "--bootstrap" in as_sc.errors, as_sc


def records_as_json(newcomer: Newcomer) -> None:
    """JSON values print as JSON, records travel from topic to topic unchanged, and Ctrl-C says what was written"""
    newcomer.run("tailrace topic create notes && tailrace topic create copy")
    newcomer.run("""echo 'k:{"id": 7}' | tailrace produce notes --key-separator :""")
    (line,) = newcomer.run("tailrace consume notes --output json").output.splitlines()
    assert json.loads(line)["key"] == "k"
    newcomer.run("tailrace consume notes --output json | tailrace produce copy --json")
    show = "tailrace consume {} --format '%k %s\\n'"
    assert newcomer.run(show.format("copy")).output == 'k {"id": 7}\n'
    typing = newcomer.start("tailrace produce notes --generate 1000000 --rate 100")
    offsets = "tailrace topic offsets notes --output json"
    wait_until(lambda: json.loads(newcomer.run(offsets).output)[0]["end"] > 1, SECONDS_MAX, "records are generated")
    interrupted = typing.interrupt()
    assert interrupted.status == 130, interrupted
    assert "written" in interrupted.output + interrupted.errors, interrupted


def more_copies(newcomer: Newcomer) -> None:
    """From one SPU to three: `up` says which command gives old topics three copies, and the command does it"""
    _Open.first.interrupt()
    _Open.first = newcomer.start("tailrace up --data first --spus 3")
    _Open.first.wait_for("ready ")
    _Open.first.wait_for("tailrace topic alter --all --replication-factor 3")
    newcomer.run("tailrace topic alter --all --replication-factor 3")
    partitions = json.loads(newcomer.run("tailrace partition list --output json").output)
    assert partitions and all(len(each["status"]["lrs"]) == 3 for each in partitions), partitions
    assert "All is well" in newcomer.run("tailrace status").output
    newcomer.run("tailrace doctor", status=None)
    newcomer.run("tailrace spu-group scale main 2")


def everything_else(newcomer: Newcomer) -> None:
    """Completion, settings from the environment, topics at the start, and data that lasts only as long as `up`"""
    for shell in ("bash", "zsh", "fish"):
        assert "tailrace" in newcomer.run(f"tailrace completion {shell}").output
    _Open.first.interrupt()
    short = newcomer.start("tailrace up --ephemeral --topic orders:6 --topic payments")
    ready = short.wait_for("ready ")
    data = re.search(r" data=(\S+)", ready)
    assert data is not None, ready
    listed = json.loads(newcomer.run(f"tailrace topic list --bootstrap {FIRST} --output json").output)
    assert {each["name"]: each["spec"]["partitions"] for each in listed} == {"orders": 6, "payments": 1}
    short.interrupt()
    newcomer.run(f"test ! -e {data[1]}")
    newcomer.run("tailrace config check", TAILRACE_LOG_LEVEL="info")
    newcomer.run("tailrace config check", status=2, TAILRACE_LOG_LEVEL="loud")


TRIPS: tuple[Callable[[Newcomer], None], ...] = (
    second_cluster,
    too_few_spus,
    missing_home,
    strange_clients,
    wrong_usage,
    records_as_json,
    more_copies,
    everything_else,
)
