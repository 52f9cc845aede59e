import msgspec
import pytest

from tailrace.pipeline.segments.log_gaps import COMPACTION, Gap


def test_a_gap_of_a_document_needs_a_known_reason() -> None:
    document = {"first": 3, "last": 5, "why": "compaction"}
    assert msgspec.convert(document, Gap) == Gap(3, 5, COMPACTION)
    with pytest.raises(msgspec.ValidationError, match="why"):
        msgspec.convert({**document, "why": "lost"}, Gap)
