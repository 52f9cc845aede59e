from tailrace.broker.groups.assignment.assignors import ASSIGNORS


def test_clients_find_kafkas_assignors_by_their_names() -> None:
    assert list(ASSIGNORS) == ["uniform", "range"]
