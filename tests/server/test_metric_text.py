from prometheus_client.parser import text_string_to_metric_families

from tailrace.server.metric_text import SAMPLES_PER_PIECE, gauge, labels


def test_the_text_is_parsed_to_the_same_values() -> None:
    odd = 'a "b" \\ c\nd'
    text = "".join(gauge("lag", "How far.", [(labels(group=odd, partition=3), 1.5), (labels(group="g"), None)]))
    (family,) = text_string_to_metric_families(text)
    assert (family.name, family.documentation, family.type) == ("lag", "How far.", "gauge")
    (sample,) = family.samples
    assert (sample.labels, sample.value) == ({"group": odd, "partition": "3"}, 1.5)


def test_long_text_is_made_in_pieces() -> None:
    samples = [(labels(group=number), number) for number in range(2 * SAMPLES_PER_PIECE + 1)]
    pieces = list(gauge("lag", "How far.", samples))
    assert max(piece.count("\n") for piece in pieces) == SAMPLES_PER_PIECE
    (family,) = text_string_to_metric_families("".join(pieces))
    assert [sample.value for sample in family.samples] == list(range(len(samples)))


def test_a_metric_without_samples_is_still_declared() -> None:
    assert "".join(gauge("lag", "How far.", [])) == "# HELP lag How far.\n# TYPE lag gauge\n"
