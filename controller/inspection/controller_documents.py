"""Describes the SC's controllers as documents: what they decide about, and how much they did."""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.workflow.metadata_dispatcher import DecisionCounts

KIND = "controller"


class ControllerRow(Struct, frozen=True):
    """The facts about one controller."""

    decides_about: str
    """The kind of the objects whose status it writes."""
    objects: int
    """The number of these objects."""
    events: int
    """The number of events that it has handled since this SC became active."""
    actions: int
    """The number of actions that it has decided on since then."""


def controller_rows(local: LocalStore, decisions: Mapping[str, DecisionCounts]) -> list[ControllerRow]:
    """Returns the facts about all controllers."""
    objects = {
        "spu": len(local.spus),
        "spu-group": len(local.spu_groups),
        "topic": len(local.topics),
        "partition": sum(len(local.partitions_of(topic_id)) for topic_id in local.topics_by_id),
        "stream-state": sum(len(local.stream_state_of(topic)) for topic in local.topics_with_stream_state),
        "trigger": len(local.triggers),
    }
    return [ControllerRow(kind, objects[kind], each.events, each.actions) for kind, each in decisions.items()]


def controller_document(row: ControllerRow) -> dict[str, object]:
    """Returns the document of a controller, which has a status like an object, but no spec."""
    return {
        "kind": KIND,
        "name": row.decides_about,
        "status": {"objects": row.objects, "events": row.events, "actions": row.actions},
    }
