from tailrace.cluster.range_shares import even_ranges, range_shares


def test_the_first_subscribers_get_one_more_of_each_topic() -> None:
    members = [("m", "ab"), ("n", "b"), ("o", "ab")]
    assert range_shares(members, {"a": 3, "b": 4, "c": 9}) == {
        "m": {"a": range(2), "b": range(2)},
        "n": {"b": range(2, 3)},
        "o": {"a": range(2, 3), "b": range(3, 4)},
    }


def test_a_member_too_many_gets_an_empty_range() -> None:
    assert range_shares([("m", "a"), ("n", "a")], {"a": 1}) == {"m": {"a": range(1)}, "n": {"a": range(1, 1)}}


def test_ranges_are_even_and_the_first_ones_are_larger() -> None:
    assert list(even_ranges(7, 3)) == [range(3), range(3, 5), range(5, 7)]
    assert list(even_ranges(7, 0)) == []
