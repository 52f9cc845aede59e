"""Records the requests that change the cluster, with the outcome for each resource that they name.

The Streaming Controller records the requests that SPUs forward to it, so an SPU records only those that it carries out
itself. Values are never recorded, because some are secrets.
"""

import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode, known_code
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.server.request_context import Reply, RequestContext

from .audit_trail import AuditTrail

Handle = Callable[[RequestContext, Any], Reply]
Outcomes = Iterable[tuple[str, int]]
"""Resources, each with the error code of its outcome."""

_CONFIG_OWNERS = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
_ACL_RESOURCES = {
    1: "ANY",
    2: "TOPIC",
    3: "GROUP",
    4: "CLUSTER",
    5: "TRANSACTIONAL_ID",
    6: "DELEGATION_TOKEN",
    7: "USER",
}


def audited(api_key: int, handle: Handle, trail: AuditTrail | None) -> Handle:
    """Returns the handler of an API, which also records the changes that it makes."""
    outcomes_of = CHANGES.get(api_key)
    if trail is None or outcomes_of is None:
        return handle

    def record(context: RequestContext, request: Any, response: Any) -> None:
        if getattr(request, "validate_only", False):
            return
        name = _name_of(api_key)
        for resource, code in outcomes_of(request, response):
            error = "" if code == ErrorCode.NONE else known_code(code).name
            trail.changed(context.client, context.client_id, name, resource, error, is_done=response is not None)

    async def record_later(context: RequestContext, request: Any, reply: Coroutine[object, object, object]) -> object:
        response = await reply
        if response is not None:
            record(context, request, response)
        return response

    def handle_and_record(context: RequestContext, request: Any) -> Reply:
        if api_key in ANSWERED_LATER:
            record(context, request, None)
        reply = handle(context, request)
        if isinstance(reply, Coroutine):
            return record_later(context, request, reply)
        if reply is not None:
            record(context, request, reply)
        return reply

    return handle_and_record


def _topics(_: Any, response: Any) -> Outcomes:
    return [(f"TOPIC:{each.name}", each.error_code) for each in response.topics]


def _deleted_topics(_: Any, response: Any) -> Outcomes:
    return [(f"TOPIC:{each.name or each.topic_id}", each.error_code) for each in response.responses]


def _partitions(_: Any, response: Any) -> Outcomes:
    return [(f"TOPIC:{each.name}", each.error_code) for each in response.results]


def _configs(_: Any, response: Any) -> Outcomes:
    return [
        (f"{_CONFIG_OWNERS.get(each.resource_type, each.resource_type)}:{each.resource_name}", each.error_code)
        for each in response.responses
    ]


def _elections(_: Any, response: Any) -> Outcomes:
    return [
        (f"PARTITION:{topic.topic}/{each.partition_id}", each.error_code)
        for topic in response.replica_election_results
        for each in topic.partition_result
    ]


def _reassignments(_: Any, response: Any) -> Outcomes:
    return [
        (f"PARTITION:{topic.name}/{each.partition_index}", response.error_code or each.error_code)
        for topic in response.responses
        for each in topic.partitions
    ]


def _created_acls(request: Any, response: Any) -> Outcomes:
    both = zip(request.creations, response.results, strict=False)
    return [(_acl(rule.resource_type, rule.resource_name, rule.principal), each.error_code) for rule, each in both]


def _deleted_acls(_: Any, response: Any) -> Outcomes:
    return [
        (_acl(rule.resource_type, rule.resource_name, rule.principal), each.error_code or rule.error_code)
        for each in response.filter_results
        for rule in each.matching_acls
    ]


def _acl(resource_type: int, name: str, principal: str) -> str:
    return f"ACL:{_ACL_RESOURCES.get(resource_type, resource_type)}:{name} {principal}"


def _users(_: Any, response: Any) -> Outcomes:
    return [(f"USER:{each.user}", each.error_code) for each in response.results]


def _quotas(_: Any, response: Any) -> Outcomes:
    return [
        (
            "QUOTA:" + ",".join(f"{part.entity_type}={part.entity_name or '<default>'}" for part in each.entity),
            each.error_code,
        )
        for each in response.entries
    ]


def _created_token(_: Any, response: Any) -> Outcomes:
    owner = f"{response.principal_type}:{response.principal_name}"
    return [(f"DELEGATION_TOKEN:{response.token_id} of {owner}", response.error_code)]


def _token(_: Any, response: Any) -> Outcomes:
    return [("DELEGATION_TOKEN", response.error_code)]


def _records(_: Any, response: Any) -> Outcomes:
    return [
        (f"PARTITION:{topic.name}/{each.partition_index}", each.error_code)
        for topic in response.topics
        for each in topic.partitions
    ]


def _groups(request: Any, _: Any) -> Outcomes:
    return [(f"GROUP:{name}", ErrorCode.NONE) for name in request.groups_names]


def _offsets(request: Any, _: Any) -> Outcomes:
    return [(f"GROUP:{request.group_id}", ErrorCode.NONE)]


def _written_object(request: Any, response: Any) -> Outcomes:
    return [(f"OBJECT:{request.kind}{_name_in(request.document)}", response.error_code)]


def _name_in(document: str) -> str:
    """Returns the name or id in the document of an object; nothing else of the document is recorded."""
    try:
        fields = json.loads(document)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(fields, dict):
        return ""
    spec = fields.get("spec")
    name = fields.get("name", spec.get("spuId") if isinstance(spec, dict) else fields.get("spuId"))
    return f"/{name}" if isinstance(name, str | int) else ""


def _deleted_object(request: Any, response: Any) -> Outcomes:
    return [(f"OBJECT:{request.kind}/{request.name}", response.error_code)]


def _undeleted_topic(request: Any, response: Any) -> Outcomes:
    return [(f"TOPIC:{request.name_or_id}", response.error_code)]


CHANGES: Mapping[int, Callable[[Any, Any], Outcomes]] = {
    ApiKey.CREATE_TOPICS: _topics,
    ApiKey.DELETE_TOPICS: _deleted_topics,
    ApiKey.CREATE_PARTITIONS: _partitions,
    ApiKey.ALTER_CONFIGS: _configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs,
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassignments,
    ApiKey.CREATE_ACLS: _created_acls,
    ApiKey.DELETE_ACLS: _deleted_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _users,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.CREATE_DELEGATION_TOKEN: _created_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _token,
    ApiKey.DELETE_RECORDS: _records,
    ApiKey.DELETE_GROUPS: _groups,
    ApiKey.OFFSET_DELETE: _offsets,
    InternalApiKey.CREATE_OBJECT: _written_object,
    InternalApiKey.UPDATE_OBJECT: _written_object,
    InternalApiKey.DELETE_OBJECT: _deleted_object,
    InternalApiKey.UNDELETE_TOPIC: _undeleted_topic,
}
"""The outcomes in a request and its response, for each API that changes something that people have made."""

ANSWERED_LATER = frozenset({ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE})
"""APIs whose handlers respond through the context. They are recorded as requested, without the outcome."""


def _name_of(api_key: int) -> str:
    key = ApiKey(api_key) if api_key in ApiKey.__members__.values() else InternalApiKey(api_key)
    return "".join(word.capitalize() for word in key.name.split("_"))
