"""`tailrace up` that cannot start says what is wrong, where, and what to do, and exits with a status for scripts."""

import os
import pwd
import subprocess

import pytest
from cluster import FREE_PORTS, Tailrace, tailrace
from free_ports import free_port


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    broker = Tailrace(tmp_path_factory.mktemp("running"))
    broker.start()
    yield broker
    broker.stop()


def _refused(*words, **environment):
    """Runs `up`, which must not start, and returns its exit status and the last line of its standard error."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("TAILRACE_", "XDG_"))}
    done = subprocess.run(
        tailrace("up", *FREE_PORTS, "--metrics", "off", *words),
        env=variables | environment,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


def test_a_data_directory_in_use_names_the_process(running):
    status, said = _refused("--data", str(running.data), "--public", "127.0.0.1:0")
    assert status == 1
    assert f"{running.data}/sc is in use by process {running.pid} (" in said
    assert said.endswith("or choose another directory with --data")


def test_an_address_in_use_names_the_process_and_the_option(running, tmp_path):
    status, said = _refused("--data", str(tmp_path), "--public", running.bootstrap)
    assert status == 1
    assert f"cannot listen on {running.bootstrap}: the address is in use by process {running.pid} (" in said
    assert said.endswith("or choose another address with --public HOST:PORT")


def test_a_file_and_an_empty_path_are_no_data_directories(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert _refused("--data", str(file)) == (2, f"tailrace up: --data {file}: this is a file; choose a directory")
    status, said = _refused("--data", "")
    assert status == 2
    assert "--data: the path is empty" in said
    assert file.read_text() == ""


@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_a_home_the_user_database_says_where_the_data_is(home, tmp_path):
    """The working directory is never the place."""
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")} | home
    done = subprocess.run(tailrace("config", "check"), env=variables, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    user = pwd.getpwuid(os.getuid()).pw_dir
    (data,) = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("data ")]
    assert data == f"{user}/.local/share/tailrace"
    assert list(tmp_path.iterdir()) == []


def _status(*words):
    done = subprocess.run(tailrace(*words), capture_output=True, text=True, timeout=30)
    assert done.stdout == ""
    (said,) = done.stderr.splitlines()
    return done.returncode, said


def test_the_address_of_a_broker_is_not_taken_for_the_sc(running):
    status, said = _status("spu", "list", "--sc", running.bootstrap)
    assert status == 3
    assert f"the server at {running.bootstrap} is a broker (SPU), not the SC: give the SC's public address" in said


def test_a_dead_broker_and_a_dead_sc_are_told_apart():
    free = f"127.0.0.1:{free_port()}"
    status, said = _status("consume", "orders", "--bootstrap", free)
    assert status == 3
    assert f"the broker at {free} does not answer: connection refused. Start one with `tailrace up`" in said
    status, said = _status("topic", "list", "--sc", free)
    assert status == 3
    assert f"the SC at {free} does not answer: connection refused. Start one with" in said
