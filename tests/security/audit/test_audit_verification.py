"""Verification finds every change of an audit log."""

from collections.abc import Sequence

import pytest

from tailrace.security.audit.audit_chain import ChainState, chained
from tailrace.security.audit.audit_signatures import new_private_pem, signature_check_of, signer_of
from tailrace.security.audit.audit_verification import AuditSummary, AuditVerification, head_document

SIGNER = signer_of(new_private_pem())
CHECK = signature_check_of(SIGNER.public_pem())


def _log(batches: int = 3) -> tuple[list[bytes], bytes]:
    """Returns the lines of a log, a checkpoint after every two events, and its head."""
    lines = []
    line, state = chained(ChainState(), {"event": "begin", "previous": ChainState().hash})
    lines.append(line)
    for batch in range(batches):
        for number in range(2):
            line, state = chained(state, {"event": "change", "resource": f"{batch}-{number}"})
            lines.append(line)
        line, state = chained(state, {"event": "checkpoint", "signature": SIGNER.sign(state)})
        lines.append(line)
    return lines, head_document(state, SIGNER.sign(state))


LINES, HEAD = _log()


def _verified(*files: Sequence[bytes], head: bytes | None = HEAD, expected: ChainState | None = None) -> AuditSummary:
    verification = AuditVerification(CHECK, expected)
    for number, lines in enumerate(files):
        list(verification.read_file(f"file{number}", lines))
    return verification.end(head)


def test_an_intact_log_has_no_faults() -> None:
    summary = _verified(LINES)
    assert (summary.faults, summary.first, summary.end.number, summary.signed) == ([], 1, 10, 10)
    assert summary.events == 6


def _changed(place: int, before: bytes, after: bytes) -> list[bytes]:
    assert before in LINES[place]
    return [*LINES[:place], LINES[place].replace(before, after), *LINES[place + 1 :]]


def _forged(place: int) -> list[bytes]:
    """Changes a line, and computes all hashes after it again."""
    _, state = chained(ChainState(), {"event": "begin", "previous": ChainState().hash})
    lines = [LINES[0]]
    for index, (batch, number) in enumerate([(0, 0), (0, 1)], 1):
        resource = "forged" if index == place else f"{batch}-{number}"
        line, state = chained(state, {"event": "change", "resource": resource})
        lines.append(line)
    line, _ = chained(state, {"event": "checkpoint", "signature": SIGNER.sign(ChainState(3, "of the true log"))})
    return [*lines, line]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (_changed(2, b"0-1", b"0-7"), "file0 line 3 \\(number 3\\) does not fit its hash"),
        (_changed(2, b'"hash":"', b'"hash":"x'), "file0 line 3 is not a line of an audit log; it was changed"),
        ([*LINES[:2], *LINES[4:]], "lines 3 to 4 are missing before file0 line 3"),
        ([*LINES[:5], *LINES[6:]], "line 6 is missing before file0 line 6"),
        ([LINES[0], LINES[2], LINES[1], *LINES[3:]], "lines were reordered"),
        ([*LINES[:4], LINES[2], *LINES[4:]], "file0 line 5 has the number 3, but follows line 4"),
        (LINES[:7], "lines 8 to 10 are missing at the end; the log was truncated"),
        (LINES[:9], "lines 8 to 9 are at the end without a valid signature"),
        ([*LINES[:9], LINES[9][:20]], "file0 ends within its line 10; it was truncated"),
        ([], "file0 is empty"),
        (_forged(1), "the signature at file0 line 4 does not fit"),
    ],
)
def test_every_fault_is_found_and_described(lines: list[bytes], fault: str) -> None:
    summary = _verified(lines)
    assert summary.faults
    with pytest.raises(AssertionError, match=fault):
        raise AssertionError("\n".join(summary.faults))


def test_removing_the_last_file_and_going_back_to_an_old_head_is_found_with_a_line_that_was_noted() -> None:
    lines, head = _log(2)
    assert _verified(lines, head=head).faults == []
    noted = _verified(LINES).end
    assert _verified(LINES, expected=noted).faults == []
    (fault,) = _verified(lines, head=head, expected=noted).faults
    assert fault == "line 10 with the expected hash is not in the log"


def test_a_missing_or_foreign_head_is_a_fault() -> None:
    assert "the file with the end of the log is missing" in _verified(LINES, head=None).faults[0]
    foreign = signer_of(new_private_pem())
    for head in (b"{}", b"x", head_document(ChainState(10, "a"), foreign.sign(ChainState(10, "a")))):
        assert "was changed, or is of another key" in _verified(LINES, head=head).faults[0]


def test_a_signature_of_another_key_is_a_fault() -> None:
    verification = AuditVerification(signature_check_of(signer_of(new_private_pem()).public_pem()))
    list(verification.read_file("file0", LINES))
    assert "of another key" in verification.end(HEAD).faults[0]


def _second_file(state: ChainState, torn: bool = False) -> tuple[list[bytes], bytes]:
    fields: dict[str, object] = {"event": "begin", "previous": state.hash, **({"torn": True} if torn else {})}
    line, end = chained(state, fields)
    last, end = chained(end, {"event": "checkpoint", "signature": SIGNER.sign(end)})
    return [line, last], head_document(end, SIGNER.sign(end))


def test_old_files_may_be_missing_but_none_in_between() -> None:
    state = _verified(LINES).end
    lines, head = _second_file(state)
    summary = _verified(lines, head=head)
    assert (summary.faults, summary.first) == ([], 11)
    assert _verified(LINES, lines, head=head).faults == []
    assert "lines 8 to 10 are missing" in _verified(LINES[:7], lines, head=head).faults[0]


@pytest.mark.parametrize(("torn", "is_sound"), [(True, True), (False, False)])
def test_an_incomplete_line_is_right_only_if_the_next_file_says_so(torn: bool, is_sound: bool) -> None:
    state = _verified(LINES).end
    lines, head = _second_file(state, torn=torn)
    summary = _verified([*LINES, b'{"n":11,"ev'], lines, head=head)
    assert (summary.faults == []) == is_sound


def test_lines_of_a_failed_write_are_passed_over_if_the_next_file_says_so() -> None:
    state = _verified(LINES[:7]).end
    lines, head = _second_file(state, torn=True)
    assert _verified(LINES, lines, head=head).faults == []


def test_faults_are_bounded() -> None:
    summary = _verified([b"x\n"] * 1000)
    assert (len(summary.faults), summary.fault_count >= 1000) == (100, True)
