"""Where the API server of Kubernetes is, and how the SC proves who it is: from the pod, or from a kubeconfig file."""

import base64
import os
import ssl
from typing import Any
from urllib.parse import urlsplit

import yaml
from msgspec import Struct

from tailrace.runtime.files import Files
from tailrace.runtime.network import Address
from tailrace.runtime.settings import SettingsError
from tailrace.runtime.tls.certificate_loading import client_context, load_certificate

POD_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where Kubernetes puts the credentials of a pod's service account."""
POD_SERVER = Address("kubernetes.default.svc", 443)


class KubernetesAccess(Struct, frozen=True):
    """The API server, the namespace, and the credentials."""

    server: Address
    namespace: str
    is_encrypted: bool = True
    path: str = ""
    """The path before that of the API, if a proxy needs one."""
    server_name: str = ""
    """The name in the server's certificate."""
    trusts_anyone: bool = False
    authority: bytes | None = None
    """The certificates that the SC trusts, in PEM; None for those of the system."""
    certificate: bytes = b""
    """The client certificate with its key, in PEM; empty for none."""
    token: str = ""
    token_file: str = ""
    """A file with a token, which Kubernetes replaces from time to time."""

    def tls(self) -> ssl.SSLContext:
        """Returns the TLS settings of a connection. Raises OSError if a certificate is wrong."""
        trusted = None if self.authority is None else self.authority.decode(errors="replace")
        try:
            context = client_context(trusted)
        except OSError as error:
            raise OSError(f"the authority of the cluster has no certificate in PEM: {error}") from error
        if self.trusts_anyone:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            load_certificate(context, self.certificate)
        return context


def pod_access(files: Files) -> KubernetesAccess:
    """Returns the access that Kubernetes gives to a pod. Raises SettingsError outside of a pod."""
    try:
        authority = files.read(f"{POD_DIRECTORY}/ca.crt")
        namespace = files.read(f"{POD_DIRECTORY}/namespace").decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"store: kubernetes works only in a pod with a service account ({error}); "
            "elsewhere name a kubeconfig file: kubernetes:FILE"
        ) from error
    access = KubernetesAccess(
        POD_SERVER, namespace, server_name=POD_SERVER.host, authority=authority, token_file=f"{POD_DIRECTORY}/token"
    )
    try:
        return _checked(access)
    except OSError as error:
        raise SettingsError(f"store: {POD_DIRECTORY}/ca.crt: {error}") from error


def kubeconfig_access(files: Files, path: str) -> KubernetesAccess:
    """Returns the access of the current context of a kubeconfig file. Raises SettingsError if it is incomplete."""
    try:
        document = yaml.safe_load(files.read(path))
    except OSError as error:
        raise SettingsError(f"store: {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"store: {path} is not YAML") from error
    try:
        return _checked(_access(document, files, os.path.dirname(path)))
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise SettingsError(f"store: {path} is not a kubeconfig file that the SC can use: {reason}") from error


def _access(document: Any, files: Files, directory: str) -> KubernetesAccess:
    context = _named(document["contexts"], document["current-context"])["context"]
    cluster = _named(document["clusters"], context["cluster"])["cluster"]
    user = _named(document["users"], context["user"])["user"] or {}
    for unsupported in ("exec", "auth-provider", "username"):
        if unsupported in user:
            raise ValueError(f"the user has {unsupported!r}; use a token or a client certificate")
    url = urlsplit(cluster["server"])
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"{cluster['server']!r} is not the URL of a server")
    is_encrypted = url.scheme == "https"
    certificate = _given(user, "client-certificate", files, directory)
    key = _given(user, "client-key", files, directory) or b""
    return KubernetesAccess(
        Address(url.hostname, url.port or (443 if is_encrypted else 80)),
        context.get("namespace", "default"),
        is_encrypted,
        url.path.rstrip("/"),
        cluster.get("tls-server-name", url.hostname),
        bool(cluster.get("insecure-skip-tls-verify")),
        _given(cluster, "certificate-authority", files, directory),
        certificate + b"\n" + key if certificate else b"",
        user.get("token", ""),
        os.path.join(directory, user["tokenFile"]) if user.get("tokenFile") else "",
    )


def _checked(access: KubernetesAccess) -> KubernetesAccess:
    """Returns the access if its certificates can be used. Raises OSError."""
    if access.is_encrypted:
        access.tls()
    return access


def _named(items: Any, name: str) -> Any:
    for item in items:
        if item["name"] == name:
            return item
    raise ValueError(f"nothing is named {name!r}")


def _given(section: Any, name: str, files: Files, directory: str) -> bytes | None:
    """Returns what a field holds, as data in the file itself or in the file that it names; None if it is not given."""
    if data := section.get(f"{name}-data"):
        return base64.b64decode(data, validate=True)
    return files.read(os.path.join(directory, section[name])) if section.get(name) else None
