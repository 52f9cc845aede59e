from tailrace.client.log_facts import whole_batches
from tailrace.client.transaction_states import ABORTED, COMMITTED, OPEN, AbortedInResponse, EndsBehind
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch


def written(offset: int, producer_id: int) -> bytes:
    """Returns a batch of two records in a transaction."""
    records = [Record(offset, 0, None, b"v"), Record(offset + 1, 0, None, b"v")]
    return bytes(build_batch(records, base_offset=offset, producer_id=producer_id, is_transactional=True))


def ended(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    return bytes(marker_batch(offset, 0, producer_id, 0, is_commit=is_commit, coordinator_epoch=0, now_ms=0))


PLAIN = bytes(build_batch([Record(12, 0, None, b"v")], base_offset=12))
LOG = b"".join(
    [
        written(0, 1),
        written(2, 2),
        ended(4, 1, is_commit=False),
        written(5, 1),
        ended(7, 2, is_commit=True),
        ended(8, 1, is_commit=True),
        written(9, 2),
        ended(11, 2, is_commit=False),
        PLAIN,
    ]
)
EXPECTED = {0: ABORTED, 2: COMMITTED, 4: None, 5: COMMITTED, 7: None, 8: None, 9: ABORTED, 11: None, 12: None}


def test_a_response_tells_which_transactions_were_aborted() -> None:
    states = AbortedInResponse([(2, 9), (1, 0)])
    found = {each.header.base_offset: states.state_of(each.header, each.marker) for each in whole_batches(LOG)}
    assert found == EXPECTED


def test_a_response_may_begin_within_a_transaction() -> None:
    tail = LOG[len(written(0, 1)) :]
    states = AbortedInResponse([(1, 0), (2, 9)])
    found = {each.header.base_offset: states.state_of(each.header, each.marker) for each in whole_batches(tail)}
    assert found == {offset: state for offset, state in EXPECTED.items() if offset > 0}


def test_behind_the_last_stable_offset_the_next_marker_of_the_producer_counts() -> None:
    ends = EndsBehind(0)
    log = LOG + written(13, 2)
    for each in whole_batches(log):
        ends.note(each.header, each.marker)
    for each in whole_batches(log):
        ends.note(each.header, each.marker)  # a part that is read twice changes nothing
    found = {each.header.base_offset: ends.state_of(each.header, each.marker) for each in whole_batches(log)}
    assert found == EXPECTED | {13: OPEN}
    assert ends.scanned_to == 15
