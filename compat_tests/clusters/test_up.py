"""`tailrace up` with several SPUs: it scales their groups, and leaves nothing behind."""

import json
import os
import signal
import socket

import psutil
import pytest
from cluster import run_to_end
from free_ports import free_port
from spu_cluster import ManagedCluster, cli, objects, resolutions, wait_until_online
from waiting import wait_until


def test_the_group_is_scaled_while_everything_runs(tmp_path, name):
    """Scales from one SPU, which runs in the process of `up`, to three, and back."""
    cluster = ManagedCluster(tmp_path, spus=1)
    try:
        cluster.start()
        assert cluster.spu_pids() == {}
        status, output = cli(cluster.sc, "spu-group", "scale", "main", "3", "--wait", "30")
        assert status == 0, output
        assert set(resolutions(cluster.sc)) == {1, 2, 3}
        assert set(resolutions(cluster.sc).values()) == {"Online"}
        assert sorted(cluster.spu_pids()) == [2, 3]
        status, output = cli(cluster.sc, *("topic", "create", name, "--partitions", "3", "--wait", "20"))
        assert status == 0, output
        wide = f"{name}-wide"
        status, output = cli(cluster.sc, *("topic", "create", wide, "--replication-factor", "3", "--wait", "20"))
        assert status == 0, output
        status, output = cli(cluster.sc, "spu-group", "scale", "main", "1", "--wait", "30")
        assert status == 1, "a partition with three replicas keeps three SPUs"
        assert f"{wide} needs 3 SPUs, and 1 would be online; keep 3, or run " in output
        status, output = cli(cluster.sc, "topic", "alter", wide, "--replication-factor", "1")
        assert status == 0, output
        status, output = cli(cluster.sc, "spu-group", "scale", "main", "1", "--wait", "30")
        assert status == 0, output
        assert resolutions(cluster.sc) == {1: "Online"}
        wait_until(lambda: cluster.spu_pids() == {}, 30, "both SPUs have stopped")
        assert {tuple(each["spec"]["replicas"]) for each in objects(cluster.sc, "partition")} == {(1,)}
        cluster.stop()
    finally:
        cluster.kill()


def test_a_second_group_runs_beside_the_first(managed):
    managed.start()
    status, output = cli(
        managed.sc, *("spu-group", "create", "more", "--replicas", "2", "--min-id", "11", "--wait", "30")
    )
    assert status == 0, output
    wait_until_online(managed.sc, [1, 2, 3, 11, 12])
    status, output = cli(managed.sc, "spu-group", "delete", "more")
    assert status == 0, output
    wait_until(lambda: sorted(managed.spu_pids()) == [1, 2, 3], 30, "the group's processes have ended")


def test_the_spus_of_a_group_move_to_new_ports_at_once_and_effectless_templates_are_refused(managed, tmp_path):
    managed.start()
    first, second = free_port() - 100, free_port() - 100

    def apply(name, endpoint):
        path = tmp_path / "group.json"
        template = {"publicEndpoint": endpoint, "storage": {"size": "1Gi"}}
        path.write_text(json.dumps({"name": name, "minId": 11, "template": template}))
        return cli(managed.sc, "apply", "--kind", "spu-group", "--file", str(path))

    def port():
        (spu,) = [each for each in objects(managed.sc, "spu") if each["spec"]["spuId"] == 11]
        return [each["port"] for each in spu["status"].get("listeners", [])[:1]]

    assert apply("moving", {"port": first}) == (0, "spu-group moving created\n")
    wait_until(lambda: port() == [first + 100], 30, "the SPU has the port of its template, ten more for each id")
    assert apply("moving", {"port": second}) == (0, "spu-group moving updated\n")
    wait_until(lambda: port() == [second + 100], 30, "the SPU moves at once")
    for name, endpoint, refusal in (
        ("moving", {"port": second, "ingress": [{"hostname": "elsewhere"}]}, "'elsewhere' would have no effect"),
        ("moving", {"port": second, "encryption": "TLS"}, "uses TLS and has no certificate"),
        ("main", {"port": second}, "follow from --public and --private"),
    ):
        status, said = apply(name, endpoint)
        assert status != 0, said
        assert refusal in said
    status, output = cli(managed.sc, "spu-group", "delete", "moving")
    assert status == 0, output


def test_nothing_is_left_when_up_is_killed_and_it_can_be_started_again_at_once(managed):
    managed.start()
    children = [psutil.Process(pid) for pid in managed.spu_pids().values()]
    assert len(children) == 3
    managed.kill()
    managed.start()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
    wait_until(lambda: resolutions(managed.sc) == dict.fromkeys(managed.ids, "Online"), what="all are online")


def test_a_second_signal_ends_up_without_waiting_for_spus(managed):
    managed.start()
    children = [psutil.Process(pid) for pid in managed.spu_pids().values()]
    children[0].suspend()
    managed.up.signal(signal.SIGTERM)
    wait_until(lambda: not any(child.is_running() for child in children[1:]), 30, "the others have stopped")
    managed.up.signal(signal.SIGINT)
    managed.up.wait()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


def taken_above_a_free_one():
    """Yields a port that another process listens on, while the port below it is free."""
    while True:
        taken = socket.create_server(("127.0.0.1", free_port()))
        try:
            socket.create_server(("127.0.0.1", taken.getsockname()[1] - 1)).close()
        except OSError:
            taken.close()
        else:
            return taken


def test_an_spu_that_cannot_start_is_named_and_nothing_is_left(managed, tmp_path):
    with taken_above_a_free_one() as taken:
        port = taken.getsockname()[1]
        words = managed.command(2)
        words[words.index("--public") + 1] = f"127.0.0.1:{port - 1}"
        status, output = run_to_end(words)
    assert status == 1
    assert f"tailrace serve spu: cannot listen on 127.0.0.1:{port}: " in output
    assert output.splitlines()[-1] == "tailrace up: SPU 2 did not start: its process ended with status 1"


@pytest.mark.parametrize("spus", [1, 2])
def test_the_number_of_spus_is_remembered_and_can_be_changed(tmp_path, spus):
    cluster = ManagedCluster(tmp_path, spus=3)
    try:
        cluster.start()
        cluster.stop()
        words = cluster.command()
        del words[words.index("--spus") : words.index("--spus") + 2]
        cluster.up.start(words)
        wait_until(lambda: resolutions(cluster.sc) == dict.fromkeys((1, 2, 3), "Online"), what="all are online")
        cluster.stop()
        cluster.up.start(cluster.command(spus))
        wait_until(
            lambda: resolutions(cluster.sc) == dict.fromkeys(range(1, spus + 1), "Online"), 30, "fewer SPUs are left"
        )
        cluster.stop()
    finally:
        cluster.kill()


def test_a_clean_stop_ends_every_process(managed):
    managed.start()
    pids = managed.spu_pids().values()
    managed.stop()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_thousand_partitions_are_provisioned_in_seconds(managed, name):
    managed.start()
    status, output = cli(managed.sc, *("topic", "create", name, "--partitions", "1000", "--wait", "30"))
    assert status == 0, output
    partitions = objects(managed.sc, "partition", name)
    assert len(partitions) == 1000
    assert {each["resolution"] for each in partitions} == {"Online"}
