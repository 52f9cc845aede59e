"""The field `encryption` of endpoints: managed SPUs follow it, and custom SPUs must agree with it."""

import json
import subprocess

import pytest
from cluster import Server, tailrace
from confluent_kafka.admin import AdminClient
from free_ports import free_port
from spu_cluster import SPU_READY, ManagedCluster, cli, objects, wait_until_online
from waiting import wait_until

TLS = {"encryption": "TLS"}


@pytest.fixture
def certificates(tmp_path):
    made = tmp_path / "certificates"
    subprocess.run(tailrace("certificate", "make", str(made)), check=True, timeout=60)
    return made


def test_endpoints_with_tls_are_encrypted_or_refused(tmp_path, certificates):
    keystore = f"ssl.keystore.location={certificates}/server.pem"
    private = f"127.0.0.1:{free_port()}"
    cluster = ManagedCluster(tmp_path, spus=1, options=("--sc-private", private))
    spu = Server(tmp_path, "spu-7", SPU_READY)

    def create(kind, document):
        path = tmp_path / "document.json"
        path.write_text(json.dumps(document))
        return cli(cluster.sc, "apply", "--kind", kind, "--file", str(path))

    def protocols(of):
        (found,) = [each for each in objects(cluster.sc, "spu") if each["spec"]["spuId"] == of]
        return [each.get("protocol") for each in found["status"].get("listeners", [])]

    try:
        cluster.start()
        group = {"name": "more", "minId": 11, "template": {"publicEndpoint": TLS}}
        status, said = create("spu-group", group)
        assert status != 0, said
        assert "template.publicEndpoint.encryption: the listener PUBLIC uses TLS and has no certificate" in said
        group["template"]["configs"] = dict([keystore.split("=", 1)])
        status, said = create("spu-group", group)
        assert status == 0, said
        wait_until(lambda: protocols(11)[:1] == ["SSL"], 30, "the SPU of the group uses TLS")
        assert protocols(1)[0] is None, "other SPUs stay as they are"
        address = listener_of(cluster, 11)
        settings = {"security.protocol": "SSL", "ssl.ca.location": f"{certificates}/ca.pem"}
        admin = AdminClient({"bootstrap.servers": address, **settings})
        # The SPU learns a moment later than the SC that it is online itself.
        wait_until(lambda: set(admin.list_topics(timeout=20).brokers) == {1, 11}, 30, "clients with TLS are served")
        status, said = cli(cluster.sc, "spu", "describe", "11")
        assert f"{address} SSL" in said

        public, own_private = (f"127.0.0.1:{free_port()}" for _ in range(2))
        host, port = public.split(":")
        endpoint = {"port": int(port), "ingress": [{"hostname": host}], **TLS}
        custom = {"spuId": 7, "publicEndpoint": endpoint}
        status, said = create("spu", custom)
        assert status == 0, said
        where = ("--data", str(tmp_path / "spu-7"), "--sc", private, "--metrics", "off")
        command = tailrace("serve", "spu", "--id", "7", *where, "--public", public, "--private", own_private)
        with (tmp_path / "plain.log").open("wb") as log:
            plain = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            refusal = "SPU 7 may not join: its listener PUBLIC uses PLAINTEXT, but publicEndpoint.encryption says TLS"
            wait_until(lambda: refusal in (tmp_path / "plain.log").read_text(), 30, "the SC refuses the SPU")
        finally:
            plain.terminate()
            plain.wait(30)
        protected = ("--set", "listener.security.protocol.map=PUBLIC:SSL", "--set", keystore)
        spu.start([*command, *protected])
        wait_until_online(cluster.sc, [1, 7, 11])
        assert protocols(7) == ["SSL"]
    finally:
        spu.kill()
        cluster.kill()


def listener_of(cluster, spu):
    (found,) = [each for each in objects(cluster.sc, "spu") if each["spec"]["spuId"] == spu]
    first = found["status"]["listeners"][0]
    return f"{first['host']}:{first['port']}"
