"""Calls the API server of Kubernetes: reads and writes the custom resources in which the store keeps its log.

A call is sent only once. If a write gets no response, only its caller can find out whether it was carried out.
"""

import json
from typing import Any

import trio

from tailrace.controller.key_value.http_connection import HttpConnection, HttpError
from tailrace.controller.key_value.interface import StoreUnavailable
from tailrace.runtime.files import Files
from tailrace.runtime.network import Network
from tailrace.runtime.tls.tls_connection import connect_tls

from .kubernetes_access import KubernetesAccess
from .transaction_log import Json

GROUP = "store.tailrace.internal"
VERSION = "v1"
PLURAL = "storeobjects"
KIND = "StoreObject"
CLUSTER_LABEL = f"{GROUP}/cluster"
TYPE_LABEL = f"{GROUP}/type"

CONNECT_SECONDS_MAX = 2.0
CALL_SECONDS_MAX = 5.0
RESPONSE_BYTES_MAX = 16 * 1024 * 1024
IDLE_CONNECTIONS_MAX = 4
PAGE_OBJECTS = 500
_METADATA = (("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),)
_CLOSED = "the key-value store has been closed"


class KubernetesApi:
    def __init__(
        self, network: Network, files: Files, access: KubernetesAccess, call_seconds_max: float = CALL_SECONDS_MAX
    ) -> None:
        self._network = network
        self._files = files
        self._access = access
        self._call_seconds_max = call_seconds_max
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._is_closed = False
        self._collection = f"{access.path}/apis/{GROUP}/{VERSION}/namespaces/{access.namespace}/{PLURAL}"

    async def get(self, name: str) -> Json | None:
        """Returns an object; None if there is none."""
        status, response = await self._call("GET", f"{self._collection}/{name}")
        if status == 200:
            return _object(response)
        if _is_missing(status, response):
            return None
        raise self._refused(status, response)

    async def create(self, name: str, labels: dict[str, str], spec: Json) -> Json | None:
        """Creates an object and returns it; None if there is one already."""
        status, response = await self._call("POST", self._collection, _document(name, labels, spec))
        if status in (200, 201):
            return _object(response)
        if status == 409:
            return None
        raise self._refused(status, response)

    async def replace(self, name: str, labels: dict[str, str], spec: Json, version: str) -> Json | None:
        """Replaces an object that still has the version, and returns it; None if it has another one or is gone."""
        document = _document(name, labels, spec, version)
        status, response = await self._call("PUT", f"{self._collection}/{name}", document)
        if status == 200:
            return _object(response)
        if status == 409 or _is_missing(status, response):
            return None
        raise self._refused(status, response)

    async def delete(self, name: str, version: str | None = None) -> bool:
        """Deletes an object, if it still has the version. Returns whether it did."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if version is not None:
            options["preconditions"] = {"resourceVersion": version}
        status, response = await self._call("DELETE", f"{self._collection}/{name}", options)
        if status in (200, 202):
            return True
        if status == 409 or _is_missing(status, response):
            return False
        raise self._refused(status, response)

    async def names(self, labels: dict[str, str]) -> list[str]:
        """Returns the names of all objects with these labels."""
        selector = ",".join(f"{key}%3D{value}" for key, value in labels.items()).replace("/", "%2F")
        found: list[str] = []
        page = f"{self._collection}?labelSelector={selector}&limit={PAGE_OBJECTS}"
        path = page
        while True:
            status, response = await self._call("GET", path, headers=_METADATA)
            if status != 200:
                raise self._refused(status, response)
            found += [str(item["metadata"]["name"]) for item in response.get("items", ())]
            mark = response["metadata"].get("continue")
            if not mark:
                return found
            path = f"{page}&continue={mark}"

    def check_open(self) -> None:
        """Raises StoreUnavailable if the store was closed."""
        if self._is_closed:
            raise StoreUnavailable(_CLOSED)

    def close(self) -> None:
        """Closes all connections; waiting calls raise StoreUnavailable."""
        self._is_closed = True
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()

    async def _call(
        self, method: str, path: str, document: Json | None = None, headers: tuple[tuple[str, str], ...] = ()
    ) -> tuple[int, Any]:
        self.check_open()
        connection: HttpConnection | None = None
        body = b"" if document is None else json.dumps(document, ensure_ascii=False).encode()
        try:
            with trio.fail_after(self._call_seconds_max):
                connection = await self._acquire()
                status = await connection.request(method, path, body, headers + self._credentials())
                content = await _body(connection)
        except trio.TooSlowError:
            raise self._unavailable(f"has not responded in {self._call_seconds_max:g} s") from None
        except HttpError as error:
            raise self._unavailable(str(error)) from error
        except trio.ClosedResourceError:
            raise self._unavailable(_CLOSED) from None
        else:
            self._release(connection)
            connection = None
        finally:
            if connection is not None:
                self._discard(connection)
        try:
            response = json.loads(content)
        except ValueError:
            response = content.decode(errors="replace")[:200]
        return status, response

    def _credentials(self) -> tuple[tuple[str, str], ...]:
        token = self._access.token
        if self._access.token_file:
            token = self._files.read(self._access.token_file).decode().strip()
        return (("authorization", f"Bearer {token}"),) if token else ()

    async def _acquire(self) -> HttpConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable():
                return connection
            self._discard(connection)
        connection = await self._connect()
        self._open.add(connection)
        if self._is_closed:  # It was closed while this waited.
            self._discard(connection)
        self.check_open()
        return connection

    async def _connect(self) -> HttpConnection:
        access = self._access
        with trio.move_on_after(CONNECT_SECONDS_MAX):
            if not access.is_encrypted:
                return HttpConnection(await self._network.connect(access.server), str(access.server))
            stream = await connect_tls(self._network, access.server, access.tls(), access.server_name)
            return HttpConnection(stream, str(access.server))
        raise self._unavailable(f"cannot be reached in {CONNECT_SECONDS_MAX:g} s")

    def _release(self, connection: HttpConnection) -> None:
        if not self._is_closed and len(self._idle) < IDLE_CONNECTIONS_MAX and connection.is_reusable():
            self._idle.append(connection)
        else:
            self._discard(connection)

    def _discard(self, connection: HttpConnection) -> None:
        connection.close()
        self._open.discard(connection)

    def _refused(self, status: int, response: Any) -> StoreUnavailable:
        if status == 404 and not isinstance(response, dict):
            return self._unavailable(f"has no {PLURAL}.{GROUP}: apply deploy/kubernetes/store.yaml first")
        message = response.get("message") if isinstance(response, dict) else response
        return self._unavailable(f"refuses ({status}): {message or 'no reason given'}")

    def _unavailable(self, what: str) -> StoreUnavailable:
        if self._is_closed:
            return StoreUnavailable(_CLOSED)
        return StoreUnavailable(f"Kubernetes at {self._access.server}: {what}")


def _document(name: str, labels: dict[str, str], spec: Json, version: str | None = None) -> Json:
    metadata: Json = {"name": name, "labels": labels}
    if version is not None:
        metadata["resourceVersion"] = version
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": metadata, "spec": spec}


def _object(response: Any) -> Json:
    if not isinstance(response, dict):
        raise StoreUnavailable(f"Kubernetes responds with no object: {response!r:.100}")
    return response


def _is_missing(status: int, response: Any) -> bool:
    """Tells whether the object is missing, and not the whole custom resource: then the response is no document."""
    return status == 404 and isinstance(response, dict) and bool((response.get("details") or {}).get("name"))


async def _body(connection: HttpConnection) -> bytes:
    body = await connection.read_all(RESPONSE_BYTES_MAX)
    if body is None:
        raise StoreUnavailable(f"Kubernetes responds with more than {RESPONSE_BYTES_MAX} bytes")
    return body
