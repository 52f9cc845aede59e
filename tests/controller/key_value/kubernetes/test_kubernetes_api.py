"""Refusals of the API server become one clear sentence."""

import pytest
import trio
from kubernetes_in_memory import ACCESS, SERVER
from scripted_http import Exchange, answer, serve
from simulation.network import MemoryNetwork
from trio.testing import MockClock

from tailrace.controller.key_value.interface import StoreUnavailable
from tailrace.controller.key_value.kubernetes.kubernetes_access import KubernetesAccess
from tailrace.controller.key_value.kubernetes.kubernetes_api import KubernetesApi
from tailrace.runtime.files import RealFiles


async def reason(nursery: trio.Nursery, status: int, body: object) -> str:
    network = MemoryNetwork()

    async def refuse(exchange: Exchange) -> None:
        await exchange.send(answer(body, status))

    await nursery.start(serve, network, SERVER, refuse)
    with pytest.raises(StoreUnavailable) as caught:
        await KubernetesApi(network, RealFiles(), ACCESS).get("a")
    nursery.cancel_scope.cancel()
    return str(caught.value)


async def test_a_missing_custom_resource_names_the_file_to_apply(nursery: trio.Nursery) -> None:
    text = await reason(nursery, 404, b"404 page not found\n")
    assert text == (
        "Kubernetes at kubernetes:80: has no storeobjects.store.tailrace.internal: "
        "apply deploy/kubernetes/store.yaml first"
    )


async def test_a_missing_right_is_told_in_the_words_of_kubernetes(nursery: trio.Nursery) -> None:
    body = {"kind": "Status", "message": "storeobjects is forbidden: User x cannot get", "code": 403}
    text = await reason(nursery, 403, body)
    assert text == "Kubernetes at kubernetes:80: refuses (403): storeobjects is forbidden: User x cannot get"


async def test_a_server_that_is_no_kubernetes_is_unavailable(nursery: trio.Nursery) -> None:
    assert "responds with no object" in await reason(nursery, 200, b"<html>")


async def test_a_silent_server_is_given_up(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    network = MemoryNetwork()

    async def hang(exchange: Exchange) -> None:
        await trio.sleep_forever()

    await nursery.start(serve, network, SERVER, hang)
    with pytest.raises(StoreUnavailable, match="has not responded in 5 s"):
        await KubernetesApi(network, RealFiles(), ACCESS).get("a")
    nursery.cancel_scope.cancel()


async def test_a_token_is_read_again_for_each_request(
    nursery: trio.Nursery, tmp_path_factory: pytest.TempPathFactory
) -> None:
    network = MemoryNetwork()
    token = tmp_path_factory.mktemp("pod") / "token"
    seen: list[str] = []

    async def note(exchange: Exchange) -> None:
        seen.append(exchange.headers.get("authorization", ""))
        await exchange.send(answer({}))

    await nursery.start(serve, network, SERVER, note)
    access = KubernetesAccess(SERVER, "here", is_encrypted=False, token_file=str(token))
    api = KubernetesApi(network, RealFiles(), access)
    for text in ("one", "two"):
        token.write_text(f"{text}\n")
        await api.get("a")
    assert seen == ["Bearer one", "Bearer two"]
    nursery.cancel_scope.cancel()
