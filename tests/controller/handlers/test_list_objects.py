import json

from hosts import request_of
from running_workflow import put, registered, running_workflow

from tailrace.controller.handlers.list_objects import handle
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.list_objects import ListObjectsRequest

CONTEXT = request_of(ApiKey.METADATA)


async def test_objects_are_listed_by_name_and_as_documents() -> None:
    store = MemoryStore()
    await put(store, *registered(10, 9))
    async with running_workflow(store) as running:
        everything = handle(running.host, CONTEXT, ListObjectsRequest("spu"))
        assert [each.name for each in everything.objects] == ["9", "10"]
        assert json.loads(everything.objects[0].document)["spec"]["spuId"] == 9
        one = handle(running.host, CONTEXT, ListObjectsRequest("spu", ["10"]))
        assert [each.name for each in one.objects] == ["10"]


async def test_connections_are_listed_though_they_are_no_objects() -> None:
    store = MemoryStore()
    await put(store, *registered(1, 2))
    async with running_workflow(store) as running:
        await running.connect(2, 1)
        everything = handle(running.host, CONTEXT, ListObjectsRequest("connection"))
        assert [each.name for each in everything.objects] == ["1", "2"]
        assert json.loads(everything.objects[0].document)["status"]["incarnation"] == "incarnation-1"
        some = handle(running.host, CONTEXT, ListObjectsRequest("connection", ["2", "3"]))
        assert [each.name for each in some.objects] == ["2"]


async def test_an_unknown_name_is_an_error_that_names_it() -> None:
    async with running_workflow() as running:
        missing = handle(running.host, CONTEXT, ListObjectsRequest("topic", ["orders"]))
        assert missing.error_code == ErrorCode.RESOURCE_NOT_FOUND
        assert "orders" in (missing.error_message or "")
        unknown = handle(running.host, CONTEXT, ListObjectsRequest("cluster"))
        assert unknown.error_code == ErrorCode.INVALID_REQUEST
