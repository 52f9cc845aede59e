from prometheus_client.parser import text_string_to_metric_families

from tailrace.server.metric_text import SAMPLES_PER_PIECE, gauge, labels


def test_it_is_read_as_it_was_meant() -> None:
    odd = 'a "b" \\ c\nd'
    text = "".join(gauge("lag", "How far.", [(labels(group=odd, partition=3), 1.5), (labels(group="g"), None)]))
    (family,) = text_string_to_metric_families(text)
    assert (family.name, family.documentation, family.type) == ("lag", "How far.", "gauge")
    (sample,) = family.samples
    assert (sample.labels, sample.value) == ({"group": odd, "partition": "3"}, 1.5)


def test_what_is_long_comes_in_pieces() -> None:
    samples = [(labels(group=number), number) for number in range(2 * SAMPLES_PER_PIECE + 1)]
    pieces = list(gauge("lag", "How far.", samples))
    assert max(piece.count("\n") for piece in pieces) == SAMPLES_PER_PIECE
    (family,) = text_string_to_metric_families("".join(pieces))
    assert [sample.value for sample in family.samples] == list(range(len(samples)))


def test_a_metric_without_samples_is_named_all_the_same() -> None:
    assert "".join(gauge("lag", "How far.", [])) == "# HELP lag How far.\n# TYPE lag gauge\n"
