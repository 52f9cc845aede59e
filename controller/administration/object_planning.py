"""Plans changes of whole objects: returns the writes, or the error for the client."""

import json
from collections.abc import Mapping
from uuid import UUID

from msgspec.structs import replace

from tailrace.cluster.topic_names import TakenNames
from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import document_of, parse_object
from tailrace.controller.objects.objects import (
    DeletedTopic,
    Object,
    Partition,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    SpuGroupStatus,
    SpuStatus,
    SpuType,
    Topic,
    TopicStatus,
    Trigger,
    TriggerSpec,
    TriggerStatus,
    shelves_on,
)
from tailrace.controller.spus.spu_group_controller import describe_holdings, fault_of
from tailrace.controller.spus.spu_selection import ids_of
from tailrace.controller.state.actions import Delete, KvAction, Put
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.observed import Observed
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId, TopicId

from .change_planning import check_topic_size, find_deleted, with_state_of_topic
from .planned_changes import Planned
from .topic_updates import plan_topic_update

KINDS = ("spu", "spu-group", "topic", "partition", "deleted-topic", "trigger")
_WORDS = {"spu": "SPU", "spu-group": "SPU group", "deleted-topic": "deleted topic"}
DOCUMENT_CHARACTERS_MAX = 4 * 1024 * 1024


def read_object(kind: str, document: str) -> Object:
    """Reads the document of an object that a person sent. Raises KafkaError with a message that names the field."""
    check_kind(kind)
    if len(document) > DOCUMENT_CHARACTERS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the document has {len(document)} characters; at most {DOCUMENT_CHARACTERS_MAX} are allowed",
        )
    try:
        return parse_object(kind, json.loads(document))
    except (ValueError, RecursionError) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the document is not JSON: {error}") from error
    except FieldError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def check_kind(kind: str) -> None:
    """Raises KafkaError if there is no such kind of object."""
    if kind not in KINDS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no kind {kind!r:.100}; there are {', '.join(KINDS)}")


def write_document(found: Object) -> str:
    """Returns the object as a JSON document."""
    return json.dumps(document_of(found), ensure_ascii=False)


# listing


def list_objects(kind: str, names: list[str] | None, local: LocalStore) -> list[tuple[str, Object]]:
    """Returns objects with their names, in the order that a person expects. Raises KafkaError for an unknown name."""
    check_kind(kind)
    there = _all_of(kind, local)
    if names is None:
        return there
    by_name: dict[str, list[tuple[str, Object]]] = {}
    for name, found in there:
        for alias in {name, *_aliases(found)}:
            by_name.setdefault(alias, []).append((name, found))
    missing = next((name for name in names if name not in by_name), None)
    if missing is not None:
        raise _not_found(kind, missing)
    return [each for name in dict.fromkeys(names) for each in by_name[name]]


def _all_of(kind: str, local: LocalStore) -> list[tuple[str, Object]]:
    match kind:
        case "spu":
            return [(str(spu_id), local.spus[spu_id]) for spu_id in sorted(local.spus)]
        case "spu-group":
            return sorted(local.spu_groups.items(), key=_name_of)
        case "topic":
            return sorted(local.topics.items(), key=_name_of)
        case "partition":
            return [
                (f"{name}/{number}", partition)
                for name, topic in sorted(local.topics.items())
                for number, partition in sorted(local.partitions_of(topic.id).items())
            ]
        case "trigger":
            return sorted(local.triggers.items(), key=_name_of)
        case _:
            deleted = sorted(local.deleted_topics.values(), key=lambda each: (each.deleted_at_ms, each.topic.name))
            return [(str(each.topic.id), each) for each in deleted]


def _name_of(named: tuple[str, object]) -> str:
    return named[0]


def _aliases(found: Object) -> tuple[str, ...]:
    match found:
        case Partition(topic):
            return (topic,)
        case DeletedTopic(topic):
            return (topic.name,)
        case _:
            return ()


# changes


def plan_creation(wanted: Object, local: LocalStore, topic_id: TopicId) -> Planned[Object]:
    """Plans a new object, whose status the controllers will decide. `topic_id` is for a topic. Raises KafkaError."""
    match wanted:
        case Spu(spec):
            _check_unmanaged(spec.type, spec.group)
            if spec.id in local.spus:
                owner = local.spus[spec.id].spec.group
                of_group = "" if owner is None else f": it belongs to the SPU group {owner}"
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"there is an SPU {spec.id} already{of_group}")
            _check_unreserved(spec.id, local)
            made: Object = Spu(spec, SpuStatus())
        case SpuGroup(name, group):
            if name in local.spu_groups:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"there is an SPU group {name} already")
            made = SpuGroup(name, group, SpuGroupStatus())
        case Topic(name, _, topic):
            try:
                TakenNames(local.topics).check_free(name)
            except KafkaError as error:
                raise with_state_of_topic(error, name, local) from error
            check_topic_size(name, topic.partitions, topic.replication_factor)
            made = Topic(name, topic_id, topic, TopicStatus())
        case Trigger(name, trigger):
            if name in local.triggers:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"there is a trigger {name} already")
            _check_reader(name, trigger, local)
            made = Trigger(name, replace(trigger, revision=1), TriggerStatus())
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "only the SC creates objects of this kind")
    return Planned(made, (Put(made),))


def plan_update(wanted: Object, local: LocalStore, observed: Observed) -> Planned[Object]:
    """Plans another spec for an existing object, whose status the controllers will change. Raises KafkaError."""
    match wanted:
        case Spu(spec):
            spu = local.spus.get(spec.id)
            if spu is None:
                raise _not_found("spu", str(spec.id))
            if spu.spec.type is not SpuType.CUSTOM:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"SPU {spec.id} belongs to the SPU group {spu.spec.group}: change the group's template",
                )
            _check_unmanaged(spec.type, spec.group)
            updated: Object = replace(spu, spec=spec)
        case SpuGroup(name, spec):
            group = local.spu_groups.get(name)
            if group is None:
                raise _not_found("spu-group", name)
            if spec.min_id != group.spec.min_id and local.spus_of(name):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"minId: the SPUs of {name} have their ids from {group.spec.min_id} on, and keep them",
                )
            changed = replace(group, spec=spec)
            fault = fault_of(changed, local)
            if fault is not None:  # The old group is better than an invalid group that is half changed.
                raise KafkaError(ErrorCode.INVALID_REQUEST, fault)
            updated = changed
        case Topic():
            return plan_topic_update(wanted, local, observed)
        case Trigger(name, spec):
            there = local.triggers.get(name)
            if there is None:
                raise _not_found("trigger", name)
            _check_reader(name, spec, local)
            updated = replace(there, spec=_next_revision(there.spec, spec))
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "only the SC changes objects of this kind")
    return Planned(updated, (Put(updated),))


def plan_removal(kind: str, name: str, local: LocalStore, *, force: bool) -> Planned[None]:
    """Plans the removal of an object of any kind except topics, for which see `plan_deletions`. Raises KafkaError."""
    match kind:
        case "spu":
            spu = _spus_by_name(local).get(name)
            if spu is None:
                raise _not_found(kind, name)
            if spu.spec.type is not SpuType.CUSTOM and spu.spec.group in local.spu_groups:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"SPU {name} belongs to the SPU group {spu.spec.group}: scale the group down instead",
                )
            _check_empty([spu], local, force=force)
            _check_not_taken_over(spu, local, force=force)
            writes: tuple[KvAction, ...] = (Delete(spu),)
        case "spu-group":
            group = local.spu_groups.get(name)
            if group is None:
                raise _not_found(kind, name)
            spus = sorted(local.spus_of(name).values(), key=lambda spu: spu.spec.id, reverse=True)
            _check_empty(spus, local, force=force)
            writes = (Delete(group), *map(Delete, spus))
        case "deleted-topic":
            writes = (Delete(find_deleted(name, local.deleted_topics.values())),)
        case "trigger":
            if name not in local.triggers:
                raise _not_found(kind, name)
            writes = (Delete(local.triggers[name]),)
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"no {kind!r:.100} can be deleted")
    return Planned(None, writes)


def _check_reader(name: str, spec: TriggerSpec, local: LocalStore) -> None:
    """Refuses two triggers that read a topic in the same group: each would take shards from the other."""
    for other in local.triggers.values():
        if other.name != name and (other.spec.topic, other.spec.group) == (spec.topic, spec.group):
            raise KafkaError(
                ErrorCode.DUPLICATE_RESOURCE,
                f"the trigger {other.name} reads {spec.topic} in the group {spec.group:.300} already; choose another "
                "group",
            )


def _next_revision(before: TriggerSpec, wanted: TriggerSpec) -> TriggerSpec:
    """Returns the wanted spec with the revision that follows if replicas must be replaced.

    A person asks for other replicas of the same function with a higher revision.
    """
    parts = [(each.topic, each.group, each.function, each.config, each.metrics) for each in (before, wanted)]
    is_another = parts[0] != parts[1] or wanted.revision > before.revision
    return replace(wanted, revision=before.revision + 1 if is_another else before.revision)


def _check_unmanaged(spu_type: SpuType, group: str | None) -> None:
    if spu_type is not SpuType.CUSTOM:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "spuType: managed SPUs are made by their SPU group")
    if group is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "group: a custom SPU belongs to none")


def _check_unreserved(spu_id: SpuId, local: LocalStore) -> None:
    for group in local.spu_groups.values():
        first, count = group.spec.min_id, group.spec.replicas
        if group.status.resolution is not SpuGroupResolution.INVALID and first <= spu_id < first + count:
            raise KafkaError(
                ErrorCode.DUPLICATE_RESOURCE,
                f"spuId: {spu_id} is reserved by the SPU group {group.name}, which has the ids from {first} "
                f"to {first + count - 1}",
            )


def _check_not_taken_over(spu: Spu, local: LocalStore, *, force: bool) -> None:
    """Refuses to free the id of a running SPU for which a group waits: the SPU's process would still run."""
    if force or not spu.is_online:
        return
    for group in local.spu_groups.values():
        if group.status.resolution is SpuGroupResolution.INVALID and spu.spec.id in ids_of(group.spec):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"SPU {spu.spec.id} is online, and the SPU group {group.name} waits for its id to start an SPU of its "
                "own; stop the process of the SPU first, or use --force",
            )


def _check_empty(spus: list[Spu], local: LocalStore, *, force: bool) -> None:
    if force:
        return
    for spu in spus:
        held = [each for each in local.held_by(spu.spec.id).values() if each.topic_id in local.topics_by_id]
        shelved = [each for each in local.shelved_on(spu.spec.id).values() if each.topic_id in local.topics_by_id]
        if held or shelved:
            topics = sorted({each.topic for each in (*held, *shelved)})
            shown = ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if len(topics) > 3 else "")
            holdings = describe_holdings(len(held), shelves_on(spu.spec.id, shelved))
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"SPU {spu.spec.id} holds {holdings} of {shown}, which "
                "would be lost; delete the topics first, or use --force",
            )


def _spus_by_name(local: LocalStore) -> Mapping[str, Spu]:
    return {str(spu_id): spu for spu_id, spu in local.spus.items()}


def _not_found(kind: str, name: str) -> KafkaError:
    return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no {_WORDS.get(kind, kind)} {name:.300}")


def find_topic(name: str, local: LocalStore) -> Topic:
    """Finds a topic by its name or its id. Raises KafkaError."""
    topic = local.topics.get(name)
    if topic is None:
        try:
            topic = local.topics_by_id.get(UUID(name))
        except ValueError:
            topic = None
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name:.300}")
    return topic
