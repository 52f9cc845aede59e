"""What kubeconfig files and pods say about the API server, and what is wrong with them."""

import base64
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from tailrace.controller.key_value.kubernetes.kubernetes_access import kubeconfig_access, pod_access
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Address
from tailrace.runtime.settings import SettingsError

AUTHORITY = trustme.CA()
CLIENT = AUTHORITY.issue_cert("sc@example.org")


def kubeconfig(directory: Path, cluster: dict[str, Any], user: dict[str, Any], **context: str) -> str:
    path = directory / "kubeconfig"
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **context}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_certificates_may_be_in_the_file_itself(tmp_path: Path) -> None:
    cluster = {
        "server": "https://k8s.example:6443/k8s/clusters/c-1/",
        "certificate-authority-data": encoded(AUTHORITY.cert_pem.bytes()),
    }
    user = {
        "client-certificate-data": encoded(CLIENT.cert_chain_pems[0].bytes()),
        "client-key-data": encoded(CLIENT.private_key_pem.bytes()),
    }
    access = kubeconfig_access(RealFiles(), kubeconfig(tmp_path, cluster, user, namespace="tailrace"))
    assert (access.server, access.path) == (Address("k8s.example", 6443), "/k8s/clusters/c-1")
    assert (access.namespace, access.server_name) == ("tailrace", "k8s.example")
    assert access.tls().cert_store_stats()["x509_ca"] == 1


def test_certificates_and_tokens_may_be_in_other_files(tmp_path: Path) -> None:
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    cluster = {"server": "https://10.0.0.1", "certificate-authority": "ca.pem", "tls-server-name": "k8s.example"}
    access = kubeconfig_access(RealFiles(), kubeconfig(tmp_path, cluster, {"tokenFile": "token"}))
    assert (access.server, access.server_name) == (Address("10.0.0.1", 443), "k8s.example")
    assert (access.namespace, access.token_file) == ("default", f"{tmp_path}/token")
    assert access.authority == AUTHORITY.cert_pem.bytes()
    (tmp_path / "ca.pem").write_bytes(b"# Beh\xf6rde\n" + AUTHORITY.cert_pem.bytes())
    commented = kubeconfig_access(RealFiles(), kubeconfig(tmp_path, cluster, {}))
    assert commented.tls().cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize(
    ("cluster", "user", "reason"),
    [
        ({"server": "k8s.example"}, {}, "'k8s.example' is not the URL of a server"),
        ({}, {}, "'server' is missing"),
        ({"server": "https://x"}, {"exec": {"command": "aws"}}, "use a token or a client certificate"),
        ({"server": "https://x", "certificate-authority": "none.pem"}, {}, "none.pem"),
        ({"server": "https://x", "certificate-authority": "/dev/null"}, {}, "the authority of the cluster has no cert"),
        ({"server": "https://x", "certificate-authority-data": "/u3+7Q=="}, {}, "the authority of the cluster has no"),
    ],
)
def test_what_is_missing_in_a_kubeconfig_file_is_named(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SettingsError, match=reason):
        kubeconfig_access(RealFiles(), kubeconfig(tmp_path, cluster, user))


def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other"
    with pytest.raises(SettingsError, match="No such file"):
        kubeconfig_access(RealFiles(), str(path))
    for text in ("{", "- 1", "contexts: 1"):
        path.write_text(text)
        with pytest.raises(SettingsError, match="is not"):
            kubeconfig_access(RealFiles(), str(path))


def test_outside_of_a_pod_the_error_says_what_to_do() -> None:
    with pytest.raises(SettingsError, match="elsewhere name a kubeconfig file: kubernetes:FILE"):
        pod_access(RealFiles())
