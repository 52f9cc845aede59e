from tailrace.cli.groups.group_reset_plan import Move
from tailrace.cli.groups.group_tables import (
    description,
    group_document,
    group_table,
    listed_document,
    move_table,
    notes_on,
    partitions_text,
    reset_document,
)
from tailrace.client.group_facts import Group, ListedGroup, Member, Progress
from tailrace.client.log_facts import LogEnds, Partition

ORDERS = [Partition("orders", number) for number in range(5)]
LOG = LogEnds(10, 50)
MEMBER = Member(
    "m-1", "billing", "/10.0.0.7", "worker-1", frozenset(ORDERS[:1]), frozenset(ORDERS[:2]), 4, frozenset({"orders"})
)
GROUP = Group("g", "consumer", "consumer", "Reconciling", 2, "uniform", 5, 4, (MEMBER,))
PROGRESS = [
    Progress(ORDERS[0], 20, log=LOG, unread_since_ms=1_000, owner=MEMBER),
    Progress(ORDERS[1], log=LOG),
]


def test_a_list_of_groups() -> None:
    groups = [
        ListedGroup("a", "classic", "consumer", "Stable", 1, 3),
        ListedGroup("b", "share", "share", "Empty", 2, None),
    ]
    assert group_table(groups) == (
        "GROUP  TYPE     PROTOCOL  STATE   COORDINATOR  MEMBERS\n"
        "a      classic  consumer  Stable            1        3\n"
        "b      share    share     Empty             2        -"
    )
    assert listed_document(groups[0])["members"] == 3


def test_a_group_and_its_lag() -> None:
    assert description(GROUP, PROGRESS, 91_000, with_members=False) == (
        "Group:       g\n"
        "Type:        consumer\n"
        "Protocol:    consumer\n"
        "State:       Reconciling\n"
        "Assignor:    uniform\n"
        "Epoch:       5, assigned: 4\n"
        "Coordinator: SPU 2\n"
        "Members:     1\n"
        "Lag:         30\n"
        "TOPIC   PARTITION  COMMITTED  LOG END  LAG  BEHIND  MEMBER    CLIENT   HOST\n"
        "orders          0         20       50   30  2 m     worker-1  billing  10.0.0.7\n"
        "orders          1          -       50    -  -       -         -        -"
    )


def test_the_members_of_a_group() -> None:
    shown = description(GROUP, PROGRESS, 0, with_members=True)
    assert shown.endswith(
        "\n\n"
        "MEMBER  INSTANCE  CLIENT   HOST      EPOCH  SUBSCRIBED  OWNS      SHALL OWN\n"
        "m-1     worker-1  billing  10.0.0.7      4  orders      orders/0  orders/0-1"
    )
    assert "\n\n" not in description(Group("g", "classic", "", "Empty", 2), PROGRESS, 0, with_members=True)


def test_what_a_client_calls_itself_moves_no_cursor() -> None:
    member = Member("m\x1b[2J", "bill\ning", "/h", owned=frozenset(ORDERS[:1]))
    group = Group("g", "classic", "consumer", "Stable", 1, members=(member,))
    shown = description(group, [Progress(ORDERS[0], 3, log=LOG, owner=member)], 0, with_members=True)
    assert "\x1b" not in shown
    assert "bill\\ning" in shown


def test_partitions_are_shown_in_runs() -> None:
    assert partitions_text([]) == "-"
    assert partitions_text([*ORDERS[2:4], ORDERS[0], Partition("a", 7)]) == "a/7 orders/0,2-3"


def test_what_a_row_does_not_show_is_said_below() -> None:
    assert notes_on(Progress(ORDERS[0], 20, log=LOG)) == []
    assert notes_on(Progress(ORDERS[0], 20)) == [
        "orders/0: the partition has no leader or was deleted, so its log end is unknown"
    ]
    assert notes_on(Progress(ORDERS[0], 4, log=LOG)) == [
        "orders/0: the records 4 to 9 were deleted before they were read"
    ]
    assert notes_on(Progress(ORDERS[0], 51, log=LOG)) == [
        "orders/0: 51 is beyond the log end, because the log was truncated or created again"
    ]
    assert notes_on(Progress(ORDERS[0], 50, log=LOG)) == []


def test_a_group_as_a_document() -> None:
    document = group_document(GROUP, PROGRESS, 91_000)
    assert (document["epoch"], document["assignmentEpoch"], document["lag"]) == (5, 4, 30)
    assert document["members"] == [
        {
            "memberId": "m-1",
            "instanceId": "worker-1",
            "clientId": "billing",
            "host": "/10.0.0.7",
            "epoch": 4,
            "subscribed": "orders",
            "owns": ["orders/0"],
            "shallOwn": ["orders/0", "orders/1"],
        }
    ]
    assert document["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "committed": 20,
        "metadata": None,
        "logStart": 10,
        "logEnd": 50,
        "lag": 30,
        "lagSeconds": 90.0,
        "unreadSince": "1970-01-01T00:00:01.000Z",
        "memberId": "m-1",
    }
    assert document["partitions"][1]["lagSeconds"] is None


def test_a_reset_is_shown_with_what_it_changes() -> None:
    moves = [Move(ORDERS[0], 20, 10, LOG, "5 is before the first record, 10"), Move(ORDERS[1], None, 50, LOG)]
    assert move_table(moves) == (
        "TOPIC   PARTITION  BEFORE  AFTER  MOVES BY  LAG BEFORE  LAG AFTER  NOTE\n"
        "orders          0      20     10  -10               30         40  5 is before the first record, 10\n"
        "orders          1       -     50  -                  -          0  -"
    )
    document = reset_document("g", moves, executed=True)
    assert (document["group"], document["executed"]) == ("g", True)
    assert document["partitions"][1] == {
        "topic": "orders",
        "partition": 1,
        "before": None,
        "offset": 50,
        "logStart": 10,
        "logEnd": 50,
        "lagBefore": None,
        "lagAfter": 0,
        "note": None,
    }
