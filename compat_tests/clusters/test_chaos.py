"""Kills, stops and freezes SCs and SPUs at random moments while stock clients work.

No acknowledged record is lost, every administrative operation has either happened or not, and all servers agree at the
end. The plan comes from a seed. TAILRACE_CHAOS_SEED and TAILRACE_CHAOS_SECONDS choose another or a longer plan.
"""

import os
from contextlib import ExitStack

import pytest
from chaos.administration import RunningAdministrator
from chaos.metadata import MetadataWatch
from chaos.plan import plan
from chaos.processes import harmed_cluster
from chaos.records import History, RunningConsumer, RunningProducer, stored
from chaos.replica_logs import control_offsets, read_replica
from chaos.views import topics_at, unexpected, wait_until_all_agree
from etcd_server import Etcd, install
from kubernetes_server import KubernetesMissingError, KubernetesServer
from kubernetes_server import install as install_kubernetes
from node_cluster import Watcher
from spu_cluster import cli

SEED = int(os.environ.get("TAILRACE_CHAOS_SEED", "1"))
SECONDS = float(os.environ.get("TAILRACE_CHAOS_SECONDS", "6"))
PARTITIONS = 6
REPLICATION_FACTORS = {"one-copy": 1, "three-copies": 3}
PLACES = [(topic, number) for topic in REPLICATION_FACTORS for number in range(PARTITIONS)]


@pytest.fixture(params=["one SC on sqlite", "two SCs on etcd", "two SCs on Kubernetes"])
def cluster(request, tmp_path):
    if request.param == "one SC on sqlite":
        with harmed_cluster(tmp_path) as harmed:
            yield harmed
        return
    install()
    etcd = Etcd(tmp_path)
    etcd.start()
    try:
        with ExitStack() as opened:
            store = etcd.url
            if request.param == "two SCs on Kubernetes":
                try:
                    install_kubernetes()
                except KubernetesMissingError as missing:
                    pytest.skip(str(missing))
                store = f"kubernetes:{opened.enter_context(KubernetesServer(etcd, tmp_path)).kubeconfig}"
            yield opened.enter_context(harmed_cluster(tmp_path, 2, store))
    finally:
        etcd.kill()


@pytest.mark.timeout(120 + 5 * SECONDS)
def test_every_promise_to_clients_holds_while_servers_die(cluster):
    for topic, copies in REPLICATION_FACTORS.items():
        words = ("--partitions", str(PARTITIONS), "--replication-factor", str(copies), "--wait", "20")
        status, output = cli(cluster.sc, "topic", "create", topic, *words)
        assert status == 0, output
    faults = plan(SEED, cluster.targets, SECONDS)
    print(f"TAILRACE_CHAOS_SEED={SEED} TAILRACE_CHAOS_SECONDS={SECONDS:g}", *faults, sep="\n")

    with Clients(cluster) as clients:
        clients.work_without_an_sc(cluster)
        cluster.carry_out(faults)
        assert cluster.complaints == []
        cluster.wait_until_well()
        clients.work()
        history = clients.history(cluster)
    assert clients.errors() == []
    assert history.contradictions() == []
    assert clients.watch.contradictions == []
    wait_until_all_agree(cluster.sc, cluster.addresses)
    assert unexpected(topics_at(cluster.sc), clients.administrator.possible) == []

    cluster.stop()
    assert cluster.complaints == []
    assert cluster.bug_reports() == []
    assert cluster.damage() == []
    assert cluster.leftover_processes() == []


class Clients:
    """All clients that work on the cluster, for the duration of the `with` block."""

    def __init__(self, cluster):
        self._bootstrap = cluster.bootstrap
        self.watch = MetadataWatch(cluster.addresses, frozenset(REPLICATION_FACTORS))
        self._producers = [RunningProducer(name, cluster.bootstrap, PLACES) for name in ("first", "second")]
        self._consumers = [RunningConsumer(cluster.bootstrap, topic, PARTITIONS) for topic in REPLICATION_FACTORS]
        self.administrator = RunningAdministrator(cluster.bootstrap, SEED, "changing")
        self._sent = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for each in (*self._producers, *self._consumers, self.administrator, self.watch):
            each.stop()

    def work(self, count=20):
        for producer in self._producers:
            producer.wait_for_more(count)

    def work_without_an_sc(self, cluster):
        """Produces without an SC; a producer that never retries sees even errors that a client would hide."""
        self.work()
        cluster.kill_scs()
        patience = {"request_timeout_ms": 30_000, "socket_timeout_ms": 30_000}
        strict = RunningProducer("strict", self._bootstrap, PLACES, enable_idempotence=False, retries=0, **patience)
        try:
            strict.wait_for_more(50)
            for consumer in self._consumers:
                consumer.wait_for({place: count + 20 for place, count in consumer.progress().items()})
        finally:
            strict.stop()
        self._sent.append(strict.sent())
        cluster.start_scs()

    def history(self, cluster):
        """Returns what all clients sent and saw, after consumers have read to the end."""
        for producer in self._producers:
            producer.stop()
        logs = stored(self._bootstrap, PLACES)
        ends = {place: len(log) for place, log in logs.items()}
        for consumer in self._consumers:
            consumer.wait_for(ends)
        print(f"{sum(ends.values())} records; administration: {self.administrator}")
        print(f"{self.watch.answers} metadata responses, {self.watch.elections()} elections")
        sent = [*self._sent, *(producer.sent() for producer in self._producers)]
        Watcher(self._bootstrap).wait_until_all_in_sync("three-copies", PARTITIONS)
        # Clients do not see what recovery wrote between the records of the replicated topic.
        unseen = {
            place: control_offsets(read_replica(cluster.replica_directory(1, *place)))
            for place in PLACES
            if place[0] == "three-copies"
        }
        return History(logs, sent, [consumer.seen for consumer in self._consumers], unseen)

    def errors(self):
        everyone = (*self._producers, *self._consumers, self.administrator)
        return [error for each in everyone for error in each.errors]
