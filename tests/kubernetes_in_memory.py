"""An API server of Kubernetes in memory: only the custom resource of the store, with the rules for versions."""

import itertools
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import trio
from scripted_http import Exchange, answer, serve
from simulation.network import MemoryNetwork

from tailrace.controller.key_value.kubernetes.kubernetes_access import KubernetesAccess
from tailrace.controller.key_value.kubernetes.kubernetes_api import GROUP, PLURAL, KubernetesApi
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Address

SERVER = Address("kubernetes", 80)
ACCESS = KubernetesAccess(SERVER, "here", is_encrypted=False)
COLLECTION = f"/apis/{GROUP}/v1/namespaces/here/{PLURAL}"
OBJECT_BYTES_MAX = 1_572_864

Json = dict[str, Any]


class KubernetesInMemory:
    """The server. `lose` decides which requests are carried out and get no response."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.objects: dict[str, Json] = {}
        self.requests: list[tuple[str, str]] = []
        self.lose: Callable[[str, str], bool] = lambda method, name: False
        self._versions = itertools.count(1)

    def api(self) -> KubernetesApi:
        return KubernetesApi(self.network, RealFiles(), ACCESS)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await serve(self.network, SERVER, self._respond, task_status)

    async def _respond(self, exchange: Exchange) -> None:
        url = urlsplit(exchange.path)
        name = url.path.removeprefix(COLLECTION).removeprefix("/")
        self.requests.append((exchange.method, name))
        assert len(exchange.body) <= OBJECT_BYTES_MAX, "no object is larger than Kubernetes takes"
        document: Json = json.loads(exchange.body) if exchange.body else {}
        status, response = self._carry_out(exchange.method, name, document, url.query)
        if self.lose(exchange.method, name or document.get("metadata", {}).get("name", "")):
            exchange.connection.close()
        else:
            await exchange.send(answer(response, status))

    def _carry_out(self, method: str, name: str, document: Json, query: str) -> tuple[int, Json]:
        found = self.objects.get(name)
        if method == "GET" and not name:
            return self._list(query)
        if method == "POST":
            name = document["metadata"]["name"]
            return _refusal(409, name) if name in self.objects else (201, self._stored(name, document))
        if found is None:
            return _refusal(404, name)
        if method == "GET":
            return 200, found
        wanted = document["metadata"] if method == "PUT" else document.get("preconditions", {})
        if wanted.get("resourceVersion", found["metadata"]["resourceVersion"]) != found["metadata"]["resourceVersion"]:
            return _refusal(409, name)
        if method == "DELETE":
            del self.objects[name]
            return 200, {"kind": "Status", "status": "Success"}
        return 200, self._stored(name, document)

    def _list(self, query: str) -> tuple[int, Json]:
        parameters = parse_qs(query)
        labels = dict(part.split("=") for part in unquote(parameters["labelSelector"][0]).split(","))
        after, limit = parameters.get("continue", [""])[0], int(parameters["limit"][0])
        names = sorted(
            name
            for name, each in self.objects.items()
            if labels.items() <= each["metadata"]["labels"].items() and name > after
        )
        metadata = {"continue": names[limit - 1]} if len(names) > limit else {}
        items = [{"metadata": self.objects[name]["metadata"]} for name in names[:limit]]
        return 200, {"metadata": metadata, "items": items}

    def _stored(self, name: str, document: Json) -> Json:
        metadata = {**document["metadata"], "resourceVersion": str(next(self._versions))}
        self.objects[name] = {**document, "metadata": metadata}
        return self.objects[name]


def _refusal(status: int, name: str) -> tuple[int, Json]:
    return status, {"kind": "Status", "status": "Failure", "message": f"{name}: {status}", "details": {"name": name}}
