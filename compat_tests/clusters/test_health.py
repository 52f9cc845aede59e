"""`tailrace status` and `tailrace doctor` as processes, on `tailrace up` with three SPUs."""

import json
import subprocess

from cluster import tailrace
from spu_cluster import cli


def _shown(managed, command):
    """Returns the exit status and the JSON document of the command."""
    words = tailrace(command, "--sc", managed.sc, "--bootstrap", managed.bootstrap, "--output", "json")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_scripts_can_test_the_status_of_a_cluster_and_the_doctor_explains_it(managed, name):
    managed.start()
    assert cli(managed.sc, "topic", "create", name, "--replication-factor", "3", "--wait", "20")[0] == 0
    status, document = _shown(managed, "status")
    assert (status, document["findings"]) == (0, [])
    assert {each["status"] for each in document["spus"]} == {"Online"}

    status, document = _shown(managed, "doctor")
    levels = {each["subject"]: each["level"] for each in document["findings"]}
    assert set(levels) == {
        *("cluster", "addresses", "links", "clocks", "disks", "limits", "versions", "access", "loss window")
    }
    assert {levels[each] for each in ("addresses", "links", "clocks", "versions", "access")} == {"ok"}
    (access,) = [each for each in document["findings"] if each["subject"] == "access"]
    assert access["text"].startswith("The cluster is open: every program on this machine may ")
    assert {"topic": name, "copies": 1, "windowMs": 1000} in document["lossWindows"]

    # It returns with status 0 or an explanation; the cluster then has something to complain about.
    cli(managed.sc, "topic", "create", f"{name}-wide", "--replication-factor", "4")
    status, document = _shown(managed, "status")
    assert status == 1
    (finding,) = [each for each in document["findings"] if each["subject"] == f"topic {name}-wide"]
    assert finding["level"] == "problem"
    assert finding["nextStep"]

    managed.kill()
    status, said = _shown(managed, "status")
    assert status == 3
    assert said.startswith(f"tailrace status: the SC at {managed.sc} does not answer")
    assert _shown(managed, "doctor")[0] == 3
