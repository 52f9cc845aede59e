"""Runs the commands of docs/deployment.md one after the other, on machines with the names that it uses."""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from containers.namespaces import Machine, Namespace, programs
from containers.pages import Step, steps
from containers.project import Project
from waiting import wait_until

PAGE = "docs/deployment.md"
SERVERS = ("tailrace serve ", "etcd ")
DATA = "/srv/tailrace"
READY = re.compile(r"^(ready .*) in \d+ ms$", re.MULTILINE)
READY_SECONDS_MAX = 60
SEEN_SECONDS_MAX = 30


def wait_until_shown(step: Step, run: Callable[[], str]) -> None:
    """Runs a step until it prints what the page shows, which may take a moment."""
    deadline = time.monotonic() + SEEN_SECONDS_MAX
    while (printed := run()) != step.shown and time.monotonic() < deadline:
        time.sleep(0.1)
    assert printed == step.shown, step.text


class Server:
    """A server that a person starts in a terminal of its own."""

    def __init__(self, place: Namespace, script: str, log: Path) -> None:
        *before, command = script.strip().splitlines()
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                place.inside(["sh", "-ec", "\n".join([*before, f"exec {command}"])]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=programs(),
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def ready_line(self) -> str | None:
        """Returns the ready line without the duration, or None."""
        found = READY.search(self.said)
        return found[1] if found else None

    def wait_until_ready(self) -> None:
        wait_until(
            lambda: self.ready_line() or self._process.poll() is not None,
            READY_SECONDS_MAX,
            f"a ready line after\n{self.said}",
        )
        assert self._process.poll() is None, self.said

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Walk:
    """Takes the steps of the page, each of them on the machine that it names."""

    def __init__(self, machine: Machine, directory: Path, places: set[str]) -> None:
        self._directory = directory
        self._servers = ExitStack()
        for name in places:
            machine.name(name)
        self.places = {name: machine.container(name, {DATA: self._made(name)}) for name in places}

    def take(self, step: Step) -> None:
        """Takes a step; if the page shows its output, it ends when it prints that."""
        if step.language == "toml":
            self._write(step)
        elif step.text.splitlines()[-1].startswith(SERVERS[0]):
            server = self.serve(step)
            server.wait_until_ready()
            if step.shown is not None:
                shown = READY.search(step.shown)
                assert shown is not None
                assert server.ready_line() == shown[1]
        elif step.shown is None:
            self.run(step)
        else:
            wait_until_shown(step, lambda: self.run(step))

    def run(self, step: Step) -> str:
        return self._place(step).must("sh", "-ec", step.text)

    def serve(self, step: Step) -> Server:
        server = Server(self._place(step), step.text, self._directory / f"{step.place}.log")
        self._servers.callback(server.kill)
        return server

    def end(self) -> None:
        self._servers.close()

    def _place(self, step: Step) -> Namespace:
        assert step.place is not None, f"the page does not say where:\n{step.text}"
        return self.places[step.place]

    def _write(self, step: Step) -> None:
        named = re.search(rf"`{DATA}/(\S+)` on `(\S+)`", step.prose)
        assert named is not None, f"the page does not say where this file is:\n{step.text}"
        (self._directory / named[2] / named[1]).write_text(step.text)

    def _made(self, place: str) -> Path:
        (self._directory / place).mkdir()
        return self._directory / place


@pytest.fixture
def walk(machine: Machine, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Walk, list[Step]]]:
    """Yields the steps of a section, and what takes them."""
    section = steps(PAGE, request.param)
    walk = Walk(machine, tmp_path, {step.place for step in section if step.place})
    try:
        yield walk, section
    finally:
        walk.end()
        for log in tmp_path.glob("*.log"):  # pytest shows the logs if the test fails
            print(f"{log.stem} says:\n{log.read_text()}")


@pytest.mark.parametrize("walk", ["On separate machines"], indirect=True)
def test_custom_spus_are_registered_deployed_and_checked(walk: tuple[Walk, list[Step]]) -> None:
    walker, section = walk
    assert [step.place for step in section if step.language == "sh"] == [
        *("sc.example", "sc.example", "one.example", "two.example", "three.example", "sc.example", "one.example")
    ]
    for step in section:
        walker.take(step)


@pytest.mark.parametrize("walk", ["A standby for the SC"], indirect=True)
def test_a_standby_takes_over(walk: tuple[Walk, list[Step]]) -> None:
    walker, (etcd, first, second, spu, question) = walk
    walker.serve(etcd)
    leader = walker.serve(first)
    leader.wait_until_ready()
    standby = walker.serve(second)
    wait_until(lambda: "standing_by" in standby.said, READY_SECONDS_MAX, standby.said)
    walker.take(spu)
    assert standby.ready_line() is None
    leader.kill()
    standby.wait_until_ready()
    wait_until(lambda: "Online" in walker.run(question), SEEN_SECONDS_MAX, "the SPU online at the standby")


def test_the_first_records_in_containers(project: Project, tmp_path: Path) -> None:
    programs_of_page: dict[str, str] = {}
    for step in steps(PAGE, "In containers"):
        if step.language == "python":
            (name,) = re.findall(r"`(\w+\.py)`", step.prose)
            programs_of_page[name] = step.text
        else:
            _take_with_docker(project, step, programs_of_page)
    assert list(programs_of_page) == ["orders.py"]


def _take_with_docker(project: Project, step: Step, programs_of_page: Mapping[str, str]) -> None:
    match shlex.split(step.text):
        case [*_, "docker", "compose", "up", "--wait"]:
            pass  # the project is up already, and test_compose_file covers HOST_ADDRESS
        case ["docker", "compose", "exec", service, *command]:
            done = project.execute(service, command)
            assert done.returncode == 0, done.stderr
            if step.shown is not None:
                wait_until_shown(step, lambda: project.execute(service, command).stdout)
        case ["python", program, bootstrap]:
            _run_program(project.host, programs_of_page[program], bootstrap)
        case ["docker", "run", *_, "sh", "-c", command, "<", program]:
            bootstrap = command.rpartition(" ")[2]
            _run_program(project.client, programs_of_page[program], bootstrap)
        case _:
            pytest.fail(f"no test takes this step of the page:\n{step.text}")


def _run_program(place: Namespace, program: str, bootstrap: str) -> None:
    done = place.run([sys.executable, "-c", program, bootstrap], programs())
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert {line.rpartition(" ")[2] for line in printed} == {"0", "1", "2"}, done.stdout
    assert {line.partition(" ")[0] for line in printed} == {"0", "1", "2"}, done.stdout
