"""Carries out the requests of triggers: reads and writes of the state objects of streams, and reports of replicas."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from tailrace.cluster.stream_state.replica_report import CURRENT_SECONDS, ReportError, decode_report
from tailrace.cluster.stream_state.stream_state import StreamStateError, decode_group_state
from tailrace.controller.objects.object_documents import document_of
from tailrace.controller.objects.objects import (
    FunctionSnapshot,
    StreamAttribute,
    Topic,
    Trigger,
    TriggerResolution,
    TriggerSpec,
    TriggerStatus,
    replica_name,
)
from tailrace.controller.objects.spu_documents import Document
from tailrace.controller.state.actions import Delete, Put
from tailrace.controller.state.events import TriggerReported
from tailrace.controller.triggers.trigger_reports import REPORT_CHARACTERS_MAX
from tailrace.controller.workflow.workflow import Workflow
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .planned_changes import ChangeWriter, Deadlines, Planned, plan_each, result_or_raise

if TYPE_CHECKING:
    from tailrace.controller.triggers.bounded_log import LogPart

WRITE_MS_MAX = 5_000
"""How long a write waits for the store. A member whose write takes longer reads the state again."""
LOG_BYTES_MAX = 256 * 1024
"""The largest part of a log that is read at once."""
_REPLICA_NAME = re.compile(r"replica[1-9][0-9]{0,5}")
ATTRIBUTE_CHARACTERS_MAX = 512 * 1024


class ReadAttribute(Struct, frozen=True):
    """The attribute of a group, with the age of each member's heartbeat in seconds."""

    attribute: StreamAttribute
    ages: Mapping[str, float]


class ReadStream(Struct, frozen=True):
    """What the SC knows about a stream and the groups that read it."""

    shards: int
    replicas: int
    """The wanted number of replicas of a deployed trigger of the group, or 0."""
    attributes: tuple[ReadAttribute, ...]


class TriggerRequests:
    """Carries out requests of triggers. Every call raises KafkaError if the request is refused."""

    def __init__(
        self,
        writer: ChangeWriter,
        workflow: Workflow,
        now: Callable[[], float],
    ) -> None:
        """`now` is the clock with which the ages are measured."""
        self._writer = writer
        self._workflow = workflow
        self._local = workflow.local
        self._ages = workflow.heartbeat_ages
        self._now = now

    def read_stream(self, topic: str, group: str | None) -> ReadStream:
        """Reads the attribute of a group, or of all groups for None."""
        found = self._topic(topic)
        attributes = self._local.stream_state_of(topic)
        groups = sorted(attributes) if group is None else [each for each in (group,) if each in attributes]
        now = self._now()
        return ReadStream(
            found.spec.partitions,
            self._replicas(topic, group),
            tuple(ReadAttribute(attributes[each], self._ages.ages_of(attributes[each], now)) for each in groups),
        )

    async def write_stream(self, topic: str, group: str, expected_version: int, text: str | None) -> int:
        """Writes the attribute of a group if the store still has the expected version. Returns the new version.

        `text` is None to remove the attribute.
        """
        _check(group, text)

        def plan(attribute: StreamAttribute) -> Planned[None]:
            self._topic(topic)
            known = self._local.stream_state_of(topic).get(group)
            if expected_version != (0 if known is None else known.version):
                raise _changed(topic, group)
            if text is None:
                return Planned(None, () if known is None else (Delete(known),))
            return Planned(None, (Put(attribute),))

        attribute = StreamAttribute(topic, group, text or "", expected_version)
        result_or_raise((await self._writer.write([attribute], plan_each(plan), Deadlines(WRITE_MS_MAX)))[0])
        written = self._local.stream_state_of(topic).get(group)
        if text is None:
            return 0
        if written is None or written.text != text:  # Another member has changed it since the write.
            raise _changed(topic, group)
        return written.version

    async def report(self, name: str, replica: str, document: str) -> None:
        """Takes what a replica of a trigger reports, which is kept in memory until its next report."""
        if len(document) > REPORT_CHARACTERS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the report of {name:.300} {replica:.300} has {len(document)} characters; at most "
                f"{REPORT_CHARACTERS_MAX} are allowed",
            )
        try:
            report = decode_report(document)
        except ReportError as error:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"the report of {name:.300} {replica:.300} cannot be read: {error}"
            ) from error
        await self._workflow.events.send(TriggerReported(name, replica, report, len(document), self._now()))

    def read_log(self, name: str, replica: str, after: int, bytes_max: int) -> "LogPart":
        """Reads what a replica has printed after a position, or the last part for -1."""
        if name not in self._local.triggers:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"there is no trigger {name:.300}")
        if _REPLICA_NAME.fullmatch(replica) is None:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"{replica!r:.300} is not the name of a replica")
        try:
            part = self._workflow.replicas.read_log(name, replica, after, min(max(bytes_max, 1), LOG_BYTES_MAX))
        except OSError as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {replica} of {name} cannot be read: {error.strerror}"
            ) from error
        if part is None:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"there is no log of {replica} of {name}: the SC has not started this replica",
            )
        return part

    def describe_replicas(self, trigger: Trigger) -> list[dict[str, object]]:
        """Returns for each replica what should run, what its process does, and what it has reported last."""
        wanted = {replica_name(index): revision for index, revision in enumerate(trigger.status.revisions)}
        processes = self._workflow.replicas.states(trigger.name)
        reports, now = self._workflow.triggers().reports.reports_of(trigger.name), self._now()
        documents = []
        for name in dict.fromkeys((*wanted, *processes, *reports)):
            document: dict[str, object] = {"name": name}
            if name in wanted:
                document["revision"] = wanted[name]
            if name in processes:
                document["process"] = processes[name]
            if name in reports:
                document["reportAgeMs"] = int((now - reports[name].at) * 1000)
                document["report"] = msgspec.to_builtins(reports[name].report)
            if name in wanted or name in processes or now - reports[name].at <= CURRENT_SECONDS:
                documents.append(document)
        return documents

    def run_by_hand(self, names: Collection[str] | None) -> list[Document]:
        """Returns a document for each trigger that is not deployed, but whose replicas report. Others are left out."""
        reports = self._workflow.triggers().reports
        found = []
        for name in sorted(reports.triggers if names is None else {*names}):
            current = reports.current(name, self._now())
            if name in self._local.triggers or not current:
                continue
            first = next(iter(current.values()))
            spec = TriggerSpec(first.topic, first.group, FunctionSnapshot("", ""), replicas=len(current))
            status = TriggerStatus(TriggerResolution.RUN_BY_HAND)
            found.append(self.document_of_trigger(Trigger(name, spec, status)))
        return found

    def document_of_trigger(self, trigger: Trigger) -> Document:
        """Returns the document of a trigger, with what its replicas do now in its status."""
        document = document_of(trigger)
        status = document["status"]
        assert isinstance(status, dict)
        status["replicas"] = self.describe_replicas(trigger)
        return document

    def _replicas(self, topic: str, group: str | None) -> int:
        """Returns how many replicas the trigger that reads the topic in the group should have now, or 0."""
        for trigger in self._local.triggers.values():
            if (trigger.spec.topic, trigger.spec.group) == (topic, group):
                return len(trigger.status.revisions)
        return 0

    def _topic(self, name: str) -> Topic:
        found = self._local.topics.get(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name:.300}")
        return found


def _changed(topic: str, group: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"the state of group {group:.300} of topic {topic:.300} has been changed by another member",
    )


def _check(group: str, text: str | None) -> None:
    if not group:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the name of the group is empty")
    if text is None:
        return
    if len(text) > ATTRIBUTE_CHARACTERS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the state of group {group:.300} has {len(text)} characters, more than {ATTRIBUTE_CHARACTERS_MAX}",
        )
    try:
        decode_group_state(text)
    except StreamStateError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the state of group {group:.300}: {error}") from error
