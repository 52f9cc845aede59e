"""Handlers for the APIs that only an SPU answers, one module for each API; `server/handlers/` has the shared ones.

A handler returns its response, or None if it responds later through its context. Rare work runs in a coroutine.
Handler modules are imported when their first request arrives: an SPU that only produces and fetches never loads the
others.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.internal_apis import INTERNAL_KEY_MIN, InternalApiKey

Handler = Callable[..., Any]

ROOMS: Mapping[str, tuple[ApiKey | InternalApiKey, ...]] = {
    "records": (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.INIT_PRODUCER_ID,
    ),
    "groups": (
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        InternalApiKey.EXPLAIN_GROUP,
    ),
    "stores": (
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        InternalApiKey.DESCRIBE_SPU,
        InternalApiKey.DESCRIBE_POSITIONS,
        InternalApiKey.FILL_SHELF,
        InternalApiKey.READ_SHELF,
        InternalApiKey.READ_STORE,
    ),
    "administration": (
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ),
}
"""The sub-package that holds the handler of each API."""

_ROOM_OF: Mapping[int, str] = {api: room for room, apis in ROOMS.items() for api in apis}


def load(api_key: int) -> Handler:
    """Returns the handler of an API: the function `handle` of the module that has the API's name."""
    name = InternalApiKey(api_key).name if api_key >= INTERNAL_KEY_MIN else ApiKey(api_key).name
    module = importlib.import_module(f"{__name__}.{_ROOM_OF[api_key]}.{name.lower()}")
    handler: Handler = module.handle
    return handler
