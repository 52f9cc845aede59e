"""Formats groups, their lag, and resets of offsets as tables for people and documents for programs."""

from collections.abc import Sequence

from tailrace.cli.output.printing import duration_text, plain, time_text
from tailrace.cli.output.tables import fields, table
from tailrace.client.group_facts import Group, ListedGroup, Member, Progress, total_lag
from tailrace.client.log_facts import Partition
from tailrace.client.sc_client import Document

from .group_reset_plan import Move

# a list


def group_table(groups: Sequence[ListedGroup]) -> str:
    """Formats a list of groups."""
    return table(
        ("GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR", "MEMBERS"),
        [(each.id, each.type, each.protocol, each.state, each.coordinator, each.member_count) for each in groups],
    )


def listed_document(group: ListedGroup) -> Document:
    """Makes a document of a listed group."""
    return {
        "group": group.id,
        "type": group.type,
        "protocol": group.protocol,
        "state": group.state,
        "coordinator": group.coordinator,
        "members": group.member_count,
    }


# one group


def description(group: Group, progress: Sequence[Progress], now_ms: int, *, with_members: bool) -> str:
    """Describes a group and its progress, with notes and, if wanted, its members."""
    parts = [_about(group, progress)]
    if progress:
        parts.append(_progress_table(progress, now_ms))
    parts += [plain(note) for each in progress for note in notes_on(each)]
    if with_members and group.members:
        parts += ["", _member_table(group)]
    return "\n".join(parts)


def _about(group: Group, progress: Sequence[Progress]) -> str:
    behind = "" if group.assignment_epoch in (None, group.epoch) else f", assigned: {group.assignment_epoch}"
    return fields(
        [
            ("Group", group.id),
            ("Type", group.type),
            ("Protocol", group.protocol),
            ("State", group.state),
            ("Assignor", group.assignor),
            ("Epoch", None if group.epoch is None else f"{group.epoch}{behind}"),
            ("Coordinator", f"SPU {group.coordinator}"),
            ("Members", len(group.members)),
            ("Lag", total_lag(progress)),
        ]
    )


def _progress_table(progress: Sequence[Progress], now_ms: int) -> str:
    return table(
        ("TOPIC", "PARTITION", "COMMITTED", "LOG END", "LAG", "BEHIND", "MEMBER", "CLIENT", "HOST"),
        [
            (
                each.partition.topic,
                each.partition.number,
                each.committed,
                None if each.log is None else each.log.end,
                each.lag,
                None if (seconds := each.lag_seconds(now_ms)) is None else duration_text(seconds),
                None if each.owner is None else each.owner.name,
                None if each.owner is None else each.owner.client_id,
                None if each.owner is None else each.owner.host.removeprefix("/"),
            )
            for each in progress
        ],
    )


def _member_table(group: Group) -> str:
    """Formats the members, and their target assignments if those differ from what they own (KIP-848 groups)."""
    return table(
        ("MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "SUBSCRIBED", "OWNS", "SHALL OWN"),
        [
            (
                each.id,
                each.instance_id,
                each.client_id,
                each.host.removeprefix("/"),
                each.epoch,
                each.subscription,
                partitions_text(each.owned),
                None if each.target in (None, each.owned) else partitions_text(each.target or ()),
            )
            for each in group.members
        ],
    )


def partitions_text(partitions: Sequence[Partition] | frozenset[Partition]) -> str:
    """Formats partitions as in `orders/0-3,7 payments/1`, or a dash if there are none."""
    texts = []
    for topic in sorted({each.topic for each in partitions}):
        numbers = sorted(each.number for each in partitions if each.topic == topic)
        runs: list[list[int]] = []
        for number in numbers:
            if runs and runs[-1][-1] == number - 1:
                runs[-1].append(number)
            else:
                runs.append([number])
        texts.append(f"{topic}/" + ",".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs))
    return " ".join(texts) or "-"


def notes_on(progress: Progress) -> list[str]:
    """Returns notes about a row that could be misunderstood."""
    log, committed = progress.log, progress.committed
    if log is None:
        return [f"{progress.partition}: the partition has no leader or was deleted, so its log end is unknown"]
    if committed is not None and committed < log.start:
        return [f"{progress.partition}: the records {committed} to {log.start - 1} were deleted before they were read"]
    if committed is not None and committed > log.end:
        return [
            f"{progress.partition}: {committed} is beyond the log end, because the log was truncated or created again"
        ]
    return []


def group_document(group: Group, progress: Sequence[Progress], now_ms: int) -> Document:
    """Makes a document of a group and its progress."""
    return {
        "group": group.id,
        "type": group.type,
        "protocol": group.protocol,
        "state": group.state,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "assignmentEpoch": group.assignment_epoch,
        "coordinator": group.coordinator,
        "lag": total_lag(progress),
        "members": [_member_document(each) for each in group.members],
        "partitions": [_progress_document(each, now_ms) for each in progress],
    }


def _member_document(member: Member) -> Document:
    return {
        "memberId": member.id,
        "instanceId": member.instance_id,
        "clientId": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "subscribed": member.subscription or None,
        "owns": _partitions_document(member.owned),
        "shallOwn": None if member.target is None else _partitions_document(member.target),
    }


def _partitions_document(partitions: frozenset[Partition]) -> list[str]:
    return [str(each) for each in sorted(partitions)]


def _progress_document(progress: Progress, now_ms: int) -> Document:
    return {
        "topic": progress.partition.topic,
        "partition": progress.partition.number,
        "committed": progress.committed,
        "metadata": progress.metadata or None,
        "logStart": None if progress.log is None else progress.log.start,
        "logEnd": None if progress.log is None else progress.log.end,
        "lag": progress.lag,
        "lagSeconds": progress.lag_seconds(now_ms),
        "unreadSince": None if progress.unread_since_ms is None else time_text(progress.unread_since_ms),
        "memberId": None if progress.owner is None else progress.owner.id,
    }


# a reset


def move_table(moves: Sequence[Move]) -> str:
    """Formats the changes of a reset."""
    rows = [
        (
            each.partition.topic,
            each.partition.number,
            each.before,
            each.after,
            _signed(None if each.before is None else each.after - each.before),
            each.lag_before,
            each.lag_after,
            each.note,
        )
        for each in moves
    ]
    return table(("TOPIC", "PARTITION", "BEFORE", "AFTER", "MOVES BY", "LAG BEFORE", "LAG AFTER", "NOTE"), rows)


def reset_document(group_id: str, moves: Sequence[Move], *, executed: bool) -> Document:
    """Makes a document of a reset."""
    return {
        "group": group_id,
        "executed": executed,
        "partitions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.number,
                "before": each.before,
                "offset": each.after,
                "logStart": each.log.start,
                "logEnd": each.log.end,
                "lagBefore": each.lag_before,
                "lagAfter": each.lag_after,
                "note": each.note or None,
            }
            for each in moves
        ],
    }


def _signed(difference: int | None) -> str | None:
    return None if difference is None else f"{difference:+}" if difference else "0"
