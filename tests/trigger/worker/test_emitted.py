from datetime import UTC, datetime

import pytest

from tailrace.trigger.work import Output
from tailrace.trigger.worker import emitted
from tailrace.trigger.worker.emitted import make_output, size_of


def test_text_dicts_and_lists_become_bytes() -> None:
    output = make_output("out", "kéy", {"a": [1]}, {"h": "text", "n": None}, 2, 5)
    assert output == Output("out", "kéy".encode(), b'{"a":[1]}', (("h", b"text"), ("n", None)), 2, 5)
    assert make_output("out", None, [1, 2], (), None, None).value == b"[1,2]"
    assert make_output("out", bytearray(b"k"), memoryview(b"v"), (), None, None) == Output("out", b"k", b"v")


def test_times_are_sent_in_milliseconds() -> None:
    when = datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=UTC)
    assert make_output("out", None, None, (), None, when).timestamp_ms == 1_769_860_800_123


def test_a_wrong_part_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="the value must be bytes, text, a dict, a list or None, not int"):
        make_output("out", None, 5, (), None, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="header 'h'"):
        make_output("out", None, None, {"h": 5}, None, None)  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="topic must be a name"):
        make_output("", None, None, (), None, None)
    with pytest.raises(ValueError, match="partition must be a number"):
        make_output("out", None, None, (), -1, None)
    for wrong in (1.5, 1.7e12, True, "now", -1, 2**63):
        with pytest.raises(ValueError, match="timestamp must be a datetime, or a whole number of milliseconds"):
            make_output("out", None, None, (), None, wrong)  # type: ignore[arg-type]
    monkeypatch.setattr(emitted, "OUTPUT_BYTES_MAX", 3)
    with pytest.raises(ValueError, match="has 4 bytes, more than 3"):
        make_output("out", "kk", "vv", (), None, None)


def test_the_size_of_an_output_counts_all_content() -> None:
    assert size_of(Output("out", b"k", b"vv", (("hhh", b"cc"), ("h", None)))) == 1 + 2 + 5 + 1
    assert size_of(Output("out", None, None)) == 0
