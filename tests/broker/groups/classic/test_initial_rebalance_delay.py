from tailrace.broker.groups.classic.initial_rebalance_delay import InitialRebalanceDelay


def waits(first_wait: InitialRebalanceDelay, comings: str) -> list[int]:
    """Returns the durations of the waits. A `+` stands for a member that joined meanwhile."""
    waited = []
    for coming in comings:
        first_wait.member_joined = coming == "+"
        waited.append(first_wait.next_ms())
    return waited


def test_it_waits_again_while_members_join() -> None:
    assert waits(InitialRebalanceDelay(3000, 60_000), "++-") == [3000, 3000, 0]
    assert waits(InitialRebalanceDelay(3000, 60_000), "-") == [0]


def test_a_member_that_joined_counts_for_one_wait() -> None:
    first_wait = InitialRebalanceDelay(3000, 60_000)
    first_wait.member_joined = True
    assert [first_wait.next_ms(), first_wait.next_ms()] == [3000, 0]


def test_it_waits_no_longer_than_a_rebalance_may_take() -> None:
    assert waits(InitialRebalanceDelay(3000, 8000), "+++") == [3000, 2000, 0]
    assert waits(InitialRebalanceDelay(3000, 3000), "+") == [0]
    assert waits(InitialRebalanceDelay(3000, 1000), "+") == [0]
