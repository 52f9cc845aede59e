import json

from hosts import request_of
from running_workflow import put, registered, running_workflow

from tailrace.controller.handlers.update_object import handle
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.update_object import UpdateObjectRequest

CONTEXT = request_of(ApiKey.METADATA)


async def test_an_spu_gets_another_spec_and_keeps_its_status() -> None:
    store = MemoryStore()
    await put(store, *registered(1))
    async with running_workflow(store) as running:
        await running.connect(1)
        updated = await handle(
            running.host, CONTEXT, UpdateObjectRequest("spu", json.dumps({"spuId": 1, "rack": "Zone1"}))
        )
        assert updated.error_code == ErrorCode.NONE
        spu = running.workflow.local.spus[SpuId(1)]
        assert spu.spec.rack == "Zone1"
        assert spu.is_online
        assert json.loads(updated.document)["status"]["resolution"] == "Online"


async def test_an_unknown_object_cannot_be_updated() -> None:
    async with running_workflow() as running:
        refused = await handle(running.host, CONTEXT, UpdateObjectRequest("spu", '{"spuId": 1}'))
        assert refused.error_code == ErrorCode.RESOURCE_NOT_FOUND
