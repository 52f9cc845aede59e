"""The loss window of a topic: how long an acknowledged record is only in memory, and on how many servers.

A record is acknowledged when it is in the page cache of enough servers. So no crash of a process loses it, but it is
lost if all of these machines lose power before one of them has written it to its disk.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from tailrace.cluster.replication_policy import LIVE, quorum_sizes

from .findings import Finding, Level, listed

FLUSH_MS, FLUSH_MESSAGES, MIN_INSYNC, POLICY = (
    "flush.ms",
    "flush.messages",
    "min.insync.replicas",
    "replication.policy",
)
CONFIGS = (FLUSH_MS, FLUSH_MESSAGES, MIN_INSYNC, POLICY)
NEVER = 2**62
"""Kafka writes "never" as the largest 64-bit number. Any number from here on means "never"."""


class LossWindow(Struct, frozen=True):
    """How long an acknowledged record of a topic may be only in memory, and where."""

    topic: str
    window_ms: int | None
    """0 if producers wait for the disk; None if only the operating system decides."""
    copies: int
    """How many servers have a record, at least, when a producer with acks=all gets its acknowledgement."""


def loss_window(topic: str, replicas: int, configs: Mapping[str, str]) -> LossWindow:
    """Returns the loss window of a topic with this replication factor and these effective configs."""
    return LossWindow(topic, _window_ms(configs), _copies(replicas, configs))


def _window_ms(configs: Mapping[str, str]) -> int | None:
    if _number(configs, FLUSH_MESSAGES, NEVER) == 1:
        return 0
    flush_ms = _number(configs, FLUSH_MS, NEVER)
    return None if flush_ms >= NEVER else flush_ms


def _copies(replicas: int, configs: Mapping[str, str]) -> int:
    sizes = None
    with suppress(ValueError):  # the policy may not fit these replicas while they are being changed
        sizes = quorum_sizes(configs.get(POLICY, LIVE), replicas)
    return min(_number(configs, MIN_INSYNC, 1), replicas) if sizes is None else sizes.writes


def _number(configs: Mapping[str, str], name: str, default: int) -> int:
    text = configs.get(name, "")
    return int(text) if text.removeprefix("-").isdecimal() else default


def window_text(window_ms: int | None) -> str:
    """Formats a loss window for people."""
    if window_ms is None:
        return "until the operating system writes it"
    return "0 s (waits for the disk)" if window_ms == 0 else f"{window_ms / 1000:g} s"


def loss_rows(windows: Sequence[LossWindow]) -> list[tuple[str, int, str]]:
    """Returns the rows of a table, one for all topics with the same numbers, the riskiest first."""
    alike: dict[tuple[int, float], list[LossWindow]] = {}
    for each in windows:
        alike.setdefault((each.copies, -_order(each)), []).append(each)
    rows = []
    for key in sorted(alike):
        topics = [each.topic for each in alike[key]]
        rows.append((listed(topics), key[0], window_text(alike[key][0].window_ms)))
    return rows


def loss_finding(windows: Sequence[LossWindow]) -> Finding:
    """Judges the loss windows of all topics."""
    if not windows:
        return Finding(Level.OK, "loss window", "There is no topic that could lose a record.")
    risky = [each for each in windows if each.copies == 1 and each.window_ms != 0]
    if risky:
        worst = max(risky, key=_order)
        names = listed([each.topic for each in risky])
        until = window_text(worst.window_ms)
        until = until if worst.window_ms is None else f"for up to {until}"
        return Finding(
            Level.WARNING,
            "loss window",
            f"A power failure of one machine can lose acknowledged records of {names}: each record is only in its "
            f"memory {until}.",
            "Use 3 replicas on separate machines with min.insync.replicas=2, or set flush.messages=1, with which "
            "producers wait for the disk.",
        )
    worst = max(windows, key=_order)
    if worst.window_ms == 0:
        return Finding(Level.OK, "loss window", "Producers wait for the disk, so no power failure loses a record.")
    copies = min(each.copies for each in windows if each.window_ms != 0)
    return Finding(
        Level.OK,
        "loss window",
        f"An acknowledged record is in the memory of at least {copies} servers until it is on a disk "
        f"({window_text(worst.window_ms)}); it is lost only if all of their machines lose power in that time.",
    )


def _order(window: LossWindow) -> float:
    return float("inf") if window.window_ms is None else window.window_ms
