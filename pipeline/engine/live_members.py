"""Decides whether a run on Spark would handle events that replicas of the trigger handle already. Pure."""

from tailrace.cluster.stream_state.stream_state import StreamRead
from tailrace.trigger.config.trigger_config import TriggerConfig


def conflict_with(read: StreamRead, member_id: str, config: TriggerConfig) -> str | None:
    """Returns a sentence if the run must not begin, and otherwise None.

    An entry with the own name `member_id` is that of an earlier run: the new one waits until it is stale.
    """
    live = [
        each.member_id
        for each in read.state.members
        if each.member_id != member_id
        and read.ages_ms.get(each.member_id, 0) <= (each.session_timeout_ms or round(config.session_timeout * 1000))
    ]
    where = f"{config.topic} in the group {config.group}"
    if live:
        return (
            f"{_listed(live)} handle{'s' if len(live) == 1 else ''} {where} already, and two engines would share its "
            "shards: stop the replicas, or pause the trigger with `tailrace trigger pause`"
        )
    if read.replicas > 1:
        return (
            f"a trigger with {read.replicas} replicas is deployed for {where}: scale it to 1 and pause it, delete it, "
            "or give this run a --group of its own"
        )
    return None


def _listed(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
