from tailrace.cli.pipeline.archived_topics import topic_labels

_FIRST, _AGAIN = "dd9ca0ed-7c9b-4f51-967e-40cdc4361956", "3e897a44-bc7d-4c4c-a973-d07ea6425c0a"


def test_only_a_topic_that_was_made_again_is_shown_with_its_id() -> None:
    labels = topic_labels([("orders", _FIRST), ("orders", _AGAIN), ("orders", _AGAIN), ("orders2", "a")])
    assert labels == {
        ("orders", _FIRST): "orders (dd9ca0ed)",
        ("orders", _AGAIN): "orders (3e897a44)",
        ("orders2", "a"): "orders2",
    }
