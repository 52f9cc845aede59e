"""What `produce` and `consume` do while the leader is frozen and no SC elects another one."""

import subprocess

from cluster import READY_SECONDS_MAX, tailrace
from freezing import frozen
from spu_cluster import SeparateCluster, cli, objects

UNREACHABLE = 3


def launch(*words):
    return subprocess.Popen(tailrace(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_commands_name_the_frozen_leader_and_give_up(tmp_path):
    cluster = SeparateCluster(tmp_path, spus=2)
    try:
        cluster.start()
        status, output = cli(cluster.sc, *("topic", "create", "orders", "--replication-factor", "2", "--wait", "20"))
        assert status == 0, output
        leader = objects(cluster.sc, "partition")[0]["status"]["leader"]
        other, address = (3 - leader, cluster.bootstrap.split(",")[leader - 1])
        bootstrap = ("--bootstrap", cluster.bootstrap)
        cluster.kill_controller()
        with frozen([cluster.spu_pid(leader)]):
            commands = [launch("produce", "orders", *bootstrap), launch("consume", "orders", *bootstrap)]
            for command in commands:
                output, errors = command.communicate(b"a\n", READY_SECONDS_MAX)
                assert (command.returncode, output) == (UNREACHABLE, b"")
                assert f"the SPU at {address} does not answer: it sent nothing" in errors.decode()
        assert cluster.is_running(other)
    finally:
        cluster.kill()
