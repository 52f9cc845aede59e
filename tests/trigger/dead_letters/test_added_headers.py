from tailrace.trigger.dead_letters.added_headers import split_block, whole_number, with_block

OWN = (("a", b"1"), ("x.b", b"2"), ("c", None))


def test_a_block_comes_after_the_headers_of_the_record_and_is_found_again() -> None:
    headers = with_block(OWN, "x.", {"b": "3", "d": "ü"})
    assert headers == (*OWN, ("x.b", b"3"), ("x.d", "ü".encode()))
    assert split_block(headers, "x.", {"b", "d"}) == (OWN, {"b": "3", "d": "ü"})


def test_only_the_last_of_two_blocks_is_split_off() -> None:
    once = with_block(OWN, "x.", {"b": "3", "d": "4"})
    twice = with_block(once, "x.", {"b": "5", "d": "6"})
    assert split_block(twice, "x.", {"b", "d"}) == (once, {"b": "5", "d": "6"})


def test_other_names_with_the_prefix_are_headers_of_the_record() -> None:
    own = (*OWN, ("x.other", b"5"))
    assert split_block(with_block(own, "x.", {"b": "3", "d": "4"}), "x.", {"b", "d"}) == (own, {"b": "3", "d": "4"})


def test_headers_without_a_block() -> None:
    assert split_block(OWN, "x.", {"b", "d"}) == (OWN, {})
    assert split_block((), "x.", {"b", "d"}) == ((), {})
    assert split_block((("x.b", None), ("x.d", b"\xff")), "x.", {"b", "d"}) == ((), {"b": "", "d": "\\xff"})


def test_numbers_of_other_programs() -> None:
    assert [whole_number(each) for each in ("17", "x", "", None)] == [17, -1, -1, -1]
