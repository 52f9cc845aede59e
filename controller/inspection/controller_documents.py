"""The SC's own controllers as a person is shown them: the same for as long as it leads, whatever there is to do."""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.workflow.metadata_dispatcher import DecisionCounts

KIND = "controller"


class ControllerRow(Struct, frozen=True):
    """One controller."""

    decides_about: str
    """The kind of the objects whose status it writes."""
    objects: int
    events: int
    """It was asked about, since this SC began to lead."""
    actions: int
    """It has decided upon."""


def controller_rows(local: LocalStore, decisions: Mapping[str, DecisionCounts]) -> list[ControllerRow]:
    objects = {
        "spu": len(local.spus),
        "spu-group": len(local.spu_groups),
        "topic": len(local.topics),
        "partition": sum(len(local.partitions_of(topic_id)) for topic_id in local.topics_by_id),
    }
    return [ControllerRow(kind, objects[kind], each.events, each.actions) for kind, each in decisions.items()]


def controller_document(row: ControllerRow) -> dict[str, object]:
    """As for objects; all of it is status, for nobody asks for a controller."""
    return {
        "kind": KIND,
        "name": row.decides_about,
        "status": {"objects": row.objects, "events": row.events, "actions": row.actions},
    }
