"""A broker serves other clients while ten thousand members of a hundred groups join."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from raw import API_VERSIONS, connect
from raw_groups import MEMBER_ID_REQUIRED, NONE, Member, await_coordinator, await_rebalance

GROUPS, MEMBERS = 100, 100
ANSWER_SECONDS_MAX = 9.0
"""The time limit of other clients' requests meanwhile.

They mostly take milliseconds, but two cores must also do the work of all members.
"""


def test_other_clients_are_served_while_ten_thousand_members_join(bootstrap: str) -> None:
    prefix = uuid.uuid4()
    await_coordinator(bootstrap, f"{prefix}-0")
    over = threading.Event()

    def slowest_answer() -> float:
        slowest = 0.0
        with connect(bootstrap) as connection:
            while not over.wait(0.01):
                began = time.monotonic()
                connection.call(API_VERSIONS, 0)
                slowest = max(slowest, time.monotonic() - began)
        return slowest

    with ThreadPoolExecutor(1) as threads, ExitStack() as stack:
        stack.callback(over.set)
        asking = threads.submit(slowest_answer)
        connections = [stack.enter_context(connect(bootstrap)) for _ in range(MEMBERS)]
        groups = [
            [Member(connection, f"{prefix}-{number}", session_ms=300_000) for connection in connections]
            for number in range(GROUPS)
        ]
        for members in groups:
            come_together(members)
        for members in groups:
            assert {member.heartbeat() for member in members} == {NONE}
            assert members[0].describe().state == "Stable"
    assert asking.result() < ANSWER_SECONDS_MAX


def come_together(members: list[Member]) -> None:
    """Makes one member join alone, and then all others at once."""
    first, *others = members
    for member in members:
        member.ask_to_join()
    assert {member.joined().error for member in members} == {MEMBER_ID_REQUIRED}
    first.ask_to_join()
    assert first.joined().leads, "the first member waits for nobody"
    for member in others:
        member.ask_to_join()
    await_rebalance(first)
    first.ask_to_join()
    joined = first.joined()
    assert joined.leads and len(joined.members) == MEMBERS
    assert {member.joined().error for member in others} == {NONE}
    for member in others:
        member.ask_to_sync()
    first.ask_to_sync({each.member_id: b"by the first" for each in joined.members})
    assert {member.synced().assignment for member in members} == {b"by the first"}
