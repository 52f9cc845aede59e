"""Verifies the audit logs in a topic: the chain of each server by itself, since their lines are mixed.

The key of a record is `SERVER-CHAIN:KEY`: the name of the server, a random text of its log, and the public key of its
signatures. Lines may be in a topic twice, because a server that does not know whether they have arrived sends them
again. Anyone who may write to the topic can add records, but no line that continues the chain of a server.
"""

from collections import OrderedDict
from collections.abc import Mapping

from msgspec import Struct, field

from .audit_chain import ChainState, ParsedLine, hash_of, parse_line
from .audit_signatures import KeyFileError, SignatureCheck, signature_check_of_text
from .audit_verification import AuditSummary, AuditVerification

CHAINS_MAX = 1000
"""How many chains are verified. A topic with more has keys that somebody has invented."""
REPEATED_MAX = 10_000
"""How many lines of a chain are remembered, so that those that were sent twice are recognized."""
_NAME_CHARACTERS_MAX = 100


class _Chain(Struct):
    verification: AuditVerification
    recent: OrderedDict[int, str] = field(default_factory=OrderedDict)
    """Hashes of the last lines with their own hashes, by their number."""


class TopicVerification:
    """Verifies the records of a topic one after the other, in the order of their offsets."""

    def __init__(self, trusted: Mapping[str, SignatureCheck] | None = None, expected: ChainState | None = None) -> None:
        """`trusted` has the keys that may sign, by their texts; without it, each server names its own.

        `expected` is a line of any server that was noted earlier, and must still be there.
        """
        self._trusted = trusted
        self._expected = expected
        self._chains: dict[tuple[str, str], _Chain] = {}
        """By the name of the server with its chain, and the text of its key."""
        self.others = AuditSummary()
        """Faults that belong to no chain."""

    def read(self, where: str, key: bytes | None, value: bytes | None) -> tuple[str, ParsedLine] | None:
        """Verifies a record. Returns the name of the server and the line, if it is new and can be read."""
        line = parse_line(value or b"")
        name, _, text = (key or b"").decode(errors="replace").rpartition(":")
        chain = None if line is None else self._chain(name[:_NAME_CHARACTERS_MAX], text)
        if line is None or chain is None:
            self.others.add(f"{where} is not a line of a server's audit log; somebody else has written it")
            return None
        content = hash_of(line.hash, line.body)
        if chain.recent.get(line.number) == content:
            return None
        chain.recent[line.number] = content
        if len(chain.recent) > REPEATED_MAX:
            chain.recent.popitem(last=False)
        chain.verification.read_line(where, line)
        if self._expected == ChainState(line.number, line.hash):
            self._expected = None
        return name.rpartition("-")[0] or name, line

    def end(self) -> dict[str, AuditSummary]:
        """Ends the verification. Returns what was found, by the names of the servers with their chains."""
        if self._expected is not None:
            self.others.add(f"line {self._expected.number} with the expected hash is not in the topic")
        used = {text for _, text in self._chains}
        for text in self._trusted or ():
            if text not in used:
                self.others.add(f"the topic has no line that is signed with the key {text}")
        found: dict[str, AuditSummary] = {}
        for (name, text), chain in self._chains.items():
            summary = chain.verification.end_of_copy()
            if self._trusted is not None and text not in self._trusted:
                summary.add(f"its key {text} is none of those that were given")
            found[name if name not in found else f"{name} with the key {text}"] = summary
        return found

    def _chain(self, name: str, text: str) -> _Chain | None:
        chain = self._chains.get((name, text))
        if chain is None and name and len(self._chains) < CHAINS_MAX:
            try:
                check = signature_check_of_text(text)
            except KeyFileError:
                return None
            chain = self._chains[(name, text)] = _Chain(AuditVerification(check, may_begin_anywhere=True))
        return chain
