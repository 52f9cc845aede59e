"""Formats deployed triggers as tables and texts for people, and as documents for programs."""

from collections.abc import Sequence

from tailrace.cli.output.printing import duration_text
from tailrace.cli.output.tables import fields, table
from tailrace.cli.output.tones import Tone, Toned
from tailrace.client.sc_client import Document
from tailrace.cluster.stream_state.replica_report import ShardReport, ShardState
from tailrace.cluster.stream_state.shard_ranges import format_shards
from tailrace.controller.objects.objects import Trigger, TriggerResolution
from tailrace.trigger.config.trigger_config import OnExhausted, TriggerConfig

from .trigger_facts import ReplicaFacts, ShardFacts, TriggerFacts, replicas_of, trigger_of

_BAD_STATES = frozenset({ShardState.STOPPED, ShardState.UNREACHABLE})
_WARNING_STATES = frozenset({ShardState.RETRYING, ShardState.BLOCKED})


def trigger_table(documents: Sequence[Document]) -> str:
    """Formats triggers, one in each row."""
    rows = []
    for document in documents:
        trigger = trigger_of(document)
        reports = [
            replica.current
            for replica in replicas_of(document)
            if replica.current is not None and (replica.revision is not None or _is_by_hand(trigger))
        ]
        lags = [shard.lag for report in reports for shard in report.shards]
        rows.append(
            (
                trigger.name,
                trigger.spec.topic,
                trigger.spec.group,
                replicas_text(trigger),
                sum(report.state.is_up for report in reports),
                trigger.spec.revision,
                sum(lags) if lags else None,
                trigger.status.resolution.value,
                trigger.status.reason,
            )
        )
    titles = ("NAME", "TOPIC", "GROUP", "REPLICAS", "READY", "REVISION", "LAG", "STATUS", "REASON")
    return table(titles, rows)


def replicas_text(trigger: Trigger) -> str:
    """Says how many replicas there should be now, and between which limits the number follows the lag."""
    now, spec = len(trigger.status.revisions), trigger.spec
    if _is_by_hand(trigger):
        return str(spec.replicas)
    return str(now) if spec.min_replicas is None else f"{now} ({spec.min_replicas} to {spec.replicas})"


def description(facts: TriggerFacts) -> str:
    """Describes a trigger with its replicas and shards."""
    spec, status = facts.trigger.spec, facts.trigger.status
    function = spec.function.path if spec.function.handler is None else f"{spec.function.path}:{spec.function.handler}"
    about = fields(
        [
            ("Trigger", facts.trigger.name),
            ("Topic", spec.topic),
            ("Group", spec.group),
            ("Function", function),
            ("Python", spec.function.python),
            ("Replicas", replicas_text(facts.trigger)),
            *([] if _is_by_hand(facts.trigger) else _deployed_fields(facts.trigger)),
            ("Status", status.resolution.value),
            ("Reason", status.reason),
        ]
    )
    parts = [about]
    if facts.replicas:
        parts.append(_replica_table(facts.replicas))
    if facts.shards:
        parts.append(_shard_table(facts.shards))
    return "\n\n".join(parts)


def _is_by_hand(trigger: Trigger) -> bool:
    return trigger.status.resolution is TriggerResolution.RUN_BY_HAND


def _deployed_fields(trigger: Trigger) -> list[tuple[str, object]]:
    """Returns the fields that the SC knows only of a deployed trigger."""
    return [
        ("Workers", f"{trigger.spec.config.get('max_workers', 1)} in each replica"),
        ("Guarantee", trigger.spec.config.get("guarantee")),
        ("Dead letters", _dead_letter_topic(trigger)),
        ("Revision", trigger.spec.revision),
        ("Metrics", trigger.spec.metrics),
    ]


def _dead_letter_topic(trigger: Trigger) -> str | None:
    """Returns the topic of dead letters; None if the trigger writes none."""
    spec = trigger.spec
    if spec.config.get("on_exhausted", OnExhausted.DEAD_LETTER) != OnExhausted.DEAD_LETTER:
        return None
    named = spec.config.get("dead_letters")
    config = TriggerConfig(name=trigger.name, topic=spec.topic, group=spec.group)
    return str(named) if named else config.dead_letter_topic


def _replica_table(replicas: Sequence[ReplicaFacts]) -> str:
    rows = []
    for replica in replicas:
        report = replica.current
        state, _, reason = replica.process.partition(": ")
        if report is not None:
            state, reason = report.state.value, report.reason
        rows.append(
            (
                replica.name,
                report.revision if report is not None and report.revision else replica.revision,
                state or Toned("no report", Tone.WARNING),
                None if report is None else f"{report.busy_workers}/{report.workers}",
                None if report is None else format_shards({each.shard for each in report.shards}),
                None if report is None else report.events,
                None if report is None else f"{report.events_per_second:.0f}",
                None if report is None else report.failures,
                None if report is None else report.dead_letters,
                reason,
            )
        )
    titles = ("REPLICA", "REVISION", "STATE", "BUSY", "SHARDS", "EVENTS", "PER S", "FAILURES", "DEAD", "REASON")
    return table(titles, rows)


def _shard_table(shards: Sequence[ShardFacts]) -> str:
    rows = []
    for shard in shards:
        report = shard.report or ShardReport(shard=shard.number)
        is_known = shard.report is not None
        rows.append(
            (
                shard.number,
                None if shard.owner is None else shard.owner.member_id,
                _state_of(shard),
                _offset(report.marked),
                _offset(report.committed),
                _offset(report.end),
                report.lag if is_known else None,
                duration_text(report.lag_seconds) if is_known and report.lag else None,
                report.error,
            )
        )
    return table(("SHARD", "REPLICA", "STATE", "MARKED", "COMMITTED", "END", "LAG", "AGE", "ERROR"), rows)


def _state_of(shard: ShardFacts) -> str:
    if shard.owner is None:
        return Toned("no replica", Tone.WARNING)
    if shard.report is None:
        return Toned("no report", Tone.WARNING)
    state = shard.report.state
    if state in _BAD_STATES:
        return Toned(state.value, Tone.BAD)
    return Toned(state.value, Tone.WARNING) if state in _WARNING_STATES else state.value


def _offset(offset: int) -> int | None:
    return offset if offset >= 0 else None


def shard_documents(facts: TriggerFacts) -> list[Document]:
    """Returns the shards as documents. What is not known is left out."""
    documents: list[Document] = []
    for shard in facts.shards:
        document: Document = {"shard": shard.number}
        if shard.owner is not None:
            document |= {"replica": shard.owner.member_id, "heartbeatAgeMs": int(shard.owner_age * 1000)}
        if shard.report is not None:
            report = shard.report
            document |= {
                "state": report.state.value,
                "marked": report.marked,
                "committed": report.committed,
                "end": report.end,
                "lag": report.lag,
                "lagSeconds": report.lag_seconds,
            }
            if report.error:
                document["error"] = report.error
        documents.append(document)
    return documents
