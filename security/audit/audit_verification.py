"""Verifies an audit log: finds lines that were changed, removed, reordered or truncated.

The files are read in the order of their names. Old files may be missing, because the server removes them; the log then
begins at a later line. After a fault, the verification goes on from the line that it found.
"""

import json
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from .audit_chain import FIRST_HASH, ChainState, ParsedLine, hash_of, parse_line
from .audit_event import AuditKind, is_of_event
from .audit_signatures import SignatureCheck

FAULTS_MAX = 100
"""How many faults are kept. A log with more is beyond description."""


class AuditSummary(Struct):
    """What a verification has found."""

    faults: list[str] = field(default_factory=list)
    """Sentences, each about one fault. The log is intact without any."""
    first: int = 0
    """The number of the first line; 0 if there is none."""
    end: ChainState = ChainState()
    """The end of the log."""
    signed: int = 0
    """The number of the last line that a valid signature covers."""
    events: int = 0
    """The number of events."""
    fault_count: int = 0

    def add(self, fault: str) -> None:
        """Adds a fault."""
        self.fault_count += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(fault)


class AuditVerification:
    """Verifies the lines of a log one after the other."""

    def __init__(
        self, check: SignatureCheck, expected: ChainState | None = None, *, may_begin_anywhere: bool = False
    ) -> None:
        """`expected` is a line that was noted earlier, and must still be there.

        `may_begin_anywhere` is for a copy of the log whose oldest lines may be deleted one by one. Nothing proves the
        first line that is left.
        """
        self._may_begin_anywhere = may_begin_anywhere
        self._check = check
        self._expected = expected
        self.summary = AuditSummary()
        self._torn = ""
        """What is incomplete at the end of the file before, unless the next line explains it."""

    def read_file(self, name: str, lines: Iterable[bytes]) -> Iterator[ParsedLine]:
        """Verifies the lines of a file, each with its end, and yields those that can be read."""
        place = 0
        for place, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                self._torn = f"{name} ends within its line {place}"
                return
            parsed = parse_line(line[:-1])
            if parsed is None:
                self._fault(f"{name} line {place} is not a line of an audit log; it was changed")
                continue
            self.read_line(f"{name} line {place}", parsed)
            yield parsed
        if not place:
            self._fault(f"{name} is empty; its lines were removed")

    def end(self, head: bytes | None) -> AuditSummary:
        """Ends the verification. `head` is the signed end that the server keeps beside the log, if it is there."""
        summary = self.summary
        if self._torn:
            self._fault(f"{self._torn}; it was truncated, or the server is writing it")
        if head is None:
            summary.add("the file with the end of the log is missing, so that removed lines at the end go unnoticed")
        else:
            self._verify_head(head)
        self._verify_end()
        if self._expected is not None:
            summary.add(f"line {self._expected.number} with the expected hash is not in the log")
        return summary

    def end_of_copy(self) -> AuditSummary:
        """Ends the verification of lines that were copied elsewhere, without the signed end of the log."""
        self._verify_end()
        return self.summary

    def _verify_end(self) -> None:
        summary = self.summary
        if summary.end.number > summary.signed:
            first = summary.signed + 1
            summary.add(f"{_lines(first, summary.end.number)} at the end without a valid signature that covers it all")

    def read_line(self, where: str, line: ParsedLine) -> None:
        """Verifies a line; `where` says in sentences where it is."""
        summary = self.summary
        before: ChainState | None = summary.end
        kind = line.fields.get("event")
        if self._torn and not (kind == AuditKind.BEGIN and line.fields.get("torn")):
            self._fault(f"{self._torn}; it was truncated")
        self._torn = ""
        if not summary.first:
            summary.first = line.number
            if self._may_begin_anywhere and kind != AuditKind.BEGIN:
                summary.end = ChainState(line.number, line.hash)
                summary.events += is_of_event(line.fields)
                return
            summary.end = before = _beginning(line)
        last = summary.end.number
        if line.number > last + 1:
            self._fault(f"{_lines(last + 1, line.number - 1)} missing before {where}")
            before = _beginning(line) if kind == AuditKind.BEGIN else None
        elif line.number <= last and kind == AuditKind.BEGIN and line.fields.get("torn"):
            before = _beginning(line)  # the server could not remove lines of a write that had failed
        elif line.number <= last:
            self._fault(f"{where} has the number {line.number}, but follows line {last}; lines were reordered")
            before = None
        if before is not None and hash_of(before.hash, line.body) != line.hash:
            self._fault(f"{where} (number {line.number}) does not fit its hash; it, or the line before, was changed")
        if kind == AuditKind.CHECKPOINT:
            self._verify_checkpoint(where, before, line)
        if is_of_event(line.fields):
            summary.events += 1
        summary.end = ChainState(line.number, line.hash)
        if self._expected == summary.end:
            self._expected = None

    def _verify_checkpoint(self, where: str, before: ChainState | None, line: ParsedLine) -> None:
        if before is None or not self._check.fits(before, line.fields.get("signature")):
            self._fault(f"the signature at {where} does not fit the lines before it, or is of another key")
        else:
            self.summary.signed = line.number

    def _verify_head(self, head: bytes) -> None:
        summary = self.summary
        try:
            document = json.loads(head)
            state = ChainState(int(document["n"]), str(document["hash"]))
            fits = self._check.fits(state, document["signature"])
        except (ValueError, KeyError, TypeError):
            fits = False
        if not fits:
            self._fault("the file with the end of the log was changed, or is of another key")
        elif state.number > summary.end.number:
            self._fault(f"{_lines(summary.end.number + 1, state.number)} missing at the end; the log was truncated")
        elif state.number == summary.end.number and state.hash != summary.end.hash:
            self._fault(f"line {state.number} is another than the server has written")

    def _fault(self, fault: str) -> None:
        self.summary.add(fault)


def head_document(state: ChainState, signature: str) -> bytes:
    """Returns the content of the file with the signed end of a log."""
    return json.dumps({"n": state.number, "hash": state.hash, "signature": signature}).encode() + b"\n"


def _beginning(line: ParsedLine) -> ChainState:
    """Returns the chain before a line from which a verification begins: the first line of a file states it."""
    previous = line.fields.get("previous") if line.fields.get("event") == AuditKind.BEGIN else None
    return ChainState(line.number - 1, previous if isinstance(previous, str) else FIRST_HASH)


def _lines(first: int, last: int) -> str:
    return f"line {first} is" if first == last else f"lines {first} to {last} are"
