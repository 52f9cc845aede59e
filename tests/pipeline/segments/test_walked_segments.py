from tailrace.pipeline.segments.walked_segments import WalkedSegment, WalkedSegments


def test_segments_that_a_plan_does_not_read_are_forgotten() -> None:
    walked = WalkedSegments()
    walked.put("/a", 0, WalkedSegment({}, {}, [], 5))
    walked.put("/b", 0, WalkedSegment({}, {}, [], 6))
    walked.begin_plan()
    found = walked.get("/a", 0)
    assert found is not None
    walked.put("/a", 0, found)
    walked.begin_plan()
    assert (walked.get("/a", 0), walked.get("/b", 0)) == (found, None)


def test_a_copy_can_go_on_without_a_change_of_the_original() -> None:
    original = WalkedSegment({}, {1: 5}, [], 6)
    copy = original.copy()
    copy.opened.clear()
    copy.aborted.clear()
    copy.end = 9
    assert original == WalkedSegment({}, {1: 5}, [], 6)
