"""SPUs share one connection for each direction in which one follows the other."""

from collections import Counter

import psutil
from spu_cluster import cli
from waiting import wait_until


def connections(cluster):
    """Returns how many connections each SPU has opened to the private port of each other, according to the kernel."""
    processes = {spu: psutil.Process(cluster.spu_pid(spu)) for spu in cluster.ids}
    public = {int(address.rpartition(":")[2]) for address in cluster.bootstrap.split(",")}
    private = {}
    dialled = []
    for spu, process in processes.items():
        for each in process.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN and each.laddr.port not in public:
                private[each.laddr.port] = spu
            elif each.status == psutil.CONN_ESTABLISHED:
                dialled.append((spu, each.raddr.port))
    return Counter((spu, private[port]) for spu, port in dialled if port in private)


def create(cluster, directory, name, *rows):
    """Creates a topic with these replicas, the leader first."""
    replicas = directory / f"{name}.json"
    replicas.write_text(str([list(row) for row in rows]))
    status, output = cli(cluster.sc, "topic", "create", name, "--replica-assignment", str(replicas), "--wait", "30")
    assert status == 0, output


def test_followers_connect_to_leaders_and_share_existing_connections(separate, tmp_path):
    separate.start()
    assert connections(separate) == {}
    create(separate, tmp_path, "a", (1, 2, 3))
    wait_until(lambda: connections(separate) == {(2, 1): 1, (3, 1): 1}, what="both follow SPU 1")
    create(separate, tmp_path, "b", (2, 1))
    both_ways = {(2, 1): 1, (3, 1): 1, (1, 2): 1}
    wait_until(lambda: connections(separate) == both_ways, what="SPU 1 follows SPU 2")
    create(separate, tmp_path, "c", *[(1, 2), (1, 3), (2, 1)] * 30)
    assert connections(separate) == both_ways
    for name in ("a", "b", "c"):
        assert cli(separate.sc, "topic", "delete", name)[0] == 0
    wait_until(lambda: connections(separate) == {}, what="no SPU follows another")
    separate.stop()
