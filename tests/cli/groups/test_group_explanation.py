import pytest
from explained_groups import NOW_MS, group, member, rebalance, told

from tailrace.cli.groups.group_explanation import Topics, explanation
from tailrace.client.group_facts import Group, Progress
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.protocol.internal.explain_group import ExplainedRebalance, GroupTransaction

ORDERS = [Partition("orders", number) for number in range(4)]
NO_TOPICS: Topics = {}


def _now(subject: Group, *rebalances: ExplainedRebalance, topics: Topics = NO_TOPICS) -> list[str]:
    """Returns the explanation without its last sentence, which is about the coordinator."""
    *lines, coordinator = explanation(subject, told(*rebalances), [], topics, NOW_MS)
    assert coordinator.startswith(
        "SPU 2 has coordinated the group for 2 h (partition 12 of __consumer_offsets, epoch 3) and "
    )
    return lines


@pytest.mark.parametrize(
    ("state", "rebalances", "lines"),
    [
        ("Empty", [], ["The group has no members."]),
        ("Empty", [rebalance("a left")], ["The group has no members, because a left."]),
        ("Stable", [], ["The group is stable: its members read the partitions that they own."]),
        (
            "Stable",
            [rebalance()],
            ["The group has been stable for 59 s: its members read the partitions that they own."],
        ),
        ("PreparingRebalance", [], ["The group is rebalancing: it waits for its members to join again."]),
        (
            "PreparingRebalance",
            [rebalance("b joined", expected=["a", "c"], took_seconds=None)],
            [
                "The group has been rebalancing for 1 m, because b joined.",
                "It waits for a (app at 10.0.0.7), c (app at 10.0.0.7) to join again, for at most 4 m more "
                "(max.poll.interval.ms: 300 s).",
            ],
        ),
        (
            "PreparingRebalance",
            [rebalance("b joined", arrivals={"b": 0}, seconds_ago=1, took_seconds=None)],
            [
                "The group has been rebalancing for 1 s, because b joined.",
                "It waits a moment for more members to join (group.initial.rebalance.delay.ms).",
            ],
        ),
        (
            "CompletingRebalance",
            [rebalance(took_seconds=2)],
            ["All members have joined, and the leading member has been computing the assignment for 58 s."],
        ),
        ("Assigning", [rebalance()], ["The coordinator computes the assignment for epoch 9, because a joined."]),
    ],
)
def test_what_a_group_is_doing(state: str, rebalances: list[ExplainedRebalance], lines: list[str]) -> None:
    assert _now(group(state), *rebalances) == lines


def test_who_has_to_give_up_and_who_waits_for_that() -> None:
    giving = member("a", ORDERS[:4], ORDERS[:2])
    waiting = member("b", [], ORDERS[2:])
    settled = member("c", [Partition("t", 0)], [Partition("t", 0)])
    assert _now(group("Reconciling", giving, waiting, settled, kind="consumer"), rebalance(took_seconds=None)) == [
        "The members have been taking over the assignment of epoch 9 for 1 m, because a joined.",
        "a (app at 10.0.0.7) must give up orders/2-3.",
        "b (app at 10.0.0.7) waits for orders/2-3, which a must give up first.",
    ]


def test_of_many_who_reconcile_some_are_named() -> None:
    members = [member(f"m{number}", [], ORDERS[:1]) for number in range(8)]
    lines = _now(group("Reconciling", *members, kind="consumer"))
    assert len(lines) == 1 + 5 + 1
    assert lines[-1] == "And 3 more."


def test_what_nobody_owns_and_who_owns_nothing() -> None:
    shared = group("Stable", member("a", ORDERS[:1]), member("b"))
    assert _now(shared, topics={"orders": ORDERS, "nope": None})[1:] == [
        "Members subscribe to nope, which does not exist.",
        "No member owns orders/1-3, although members subscribe to it.",
        "b (app at 10.0.0.7) owns no partition: all partitions have other owners.",
    ]
    assert _now(group("Stable", member("a", ORDERS)), topics={"orders": ORDERS})[1:] == []
    assert _now(group("Empty"), topics={"orders": ORDERS})[1:] == []


def _lag(*progress: Progress) -> str:
    return explanation(group("Empty"), told(), progress, NO_TOPICS, NOW_MS)[1]


def test_what_is_unread() -> None:
    log = LogEnds(0, 100)
    owner = member("a")
    most = Progress(ORDERS[0], 10, log=log, unread_since_ms=NOW_MS - 5_000, owner=owner)
    older = Progress(ORDERS[1], 98, log=log, unread_since_ms=NOW_MS - 90_000)
    assert _lag(most, older) == (
        "92 records are unread, the oldest is 2 m old; most of them (90) are in orders/0, "
        "which a (app at 10.0.0.7) owns."
    )
    assert _lag(Progress(ORDERS[0], 100, log=log)) == "The group has read all records."
    assert _lag(Progress(ORDERS[0], log=log)).startswith("SPU 2 has coordinated the group")


def test_offsets_that_wait_for_transactions() -> None:
    heard = told()
    heard.transactions = [GroupTransaction(7, 3, NOW_MS - 12_000), GroupTransaction(8, 1, -1)]
    assert explanation(group("Empty"), heard, [], NO_TOPICS, NOW_MS)[1:-1] == [
        "The offsets of 3 partitions wait for the end of the transaction of producer 7, which committed the first of "
        "them 12 s ago.",
        "The offset of one partition waits for the end of the transaction of producer 8.",
    ]
    heard.transactions = [GroupTransaction(number, 1, NOW_MS) for number in range(8)]
    lines = explanation(group("Empty"), heard, [], NO_TOPICS, NOW_MS)[1:-1]
    assert len(lines) == 6 and lines[-1] == "Offsets wait for the ends of 3 more transactions."
