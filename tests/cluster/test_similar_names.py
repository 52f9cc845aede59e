from tailrace.cluster.similar_names import similar


def test_only_what_is_similar_is_suggested() -> None:
    assert similar("topics", ["topic", "group"]) == "topic"
    assert similar("fly", ["topic", "group"]) is None
