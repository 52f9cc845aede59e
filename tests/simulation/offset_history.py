"""Whether everything that clients were told about one committed offset fits one register. Pure.

Each commit carries a unique mark as its metadata, so that a fetch names the commit that it saw. A history then fits a
register if and only if no two commits must each precede the other (Gibbons and Korach). A commit, together with the
fetches that saw it, must precede another one if anything of the first ended before anything of the second began. Later
reports only add to that, so that a contradiction is found at the report that causes it.

A commit of an earlier term (a generation, or a member's epoch for a partition) cannot happen after a client was told
that a later term has begun. Nothing else limits when a commit without a response may happen.
"""

from math import inf

from msgspec import Struct

NO_OFFSET = -1
NO_TERM = -1
"""The term of commits without a membership."""


class GroupHistoryError(AssertionError):
    """One sentence about a response to a client of a group that cannot be true."""


class Write(Struct, eq=False):
    """A commit, or a deletion, together with the fetches that saw it."""

    mark: str
    offset: int
    term: int
    began: float
    ended: float = inf
    """The time by which the write has happened."""
    is_refused: bool = False
    first_end: float = inf
    """The first end among the write and the fetches that saw it."""
    last_begin: float = -inf
    """The last beginning among the write and the fetches that saw it."""

    @property
    def has_happened(self) -> bool:
        return self.first_end < inf

    def __str__(self) -> str:
        return f"{self.mark!r} (offset {self.offset})" if self.mark else "what was there in the beginning"


class OffsetHistory:
    def __init__(self, name: str) -> None:
        """Prepares the history; the name of group and partition is for error messages."""
        self._name = name
        self._initial = Write("", NO_OFFSET, NO_TERM, -inf, -inf, first_end=-inf)
        self._writes: dict[str, Write] = {}
        self._happened: list[Write] = [self._initial]
        self._deletion: Write | None = None
        self._told: list[tuple[int, float]] = []
        """Terms, and when a client was first told of each; both rise."""
        self.fetches = 0
        self.acknowledged = 0

    # commits

    def on_commit(self, mark: str, offset: int, at: float, *, term: int = NO_TERM) -> Write:
        """Records a commit that is being sent."""
        assert mark not in self._writes, "each commit must have a unique mark"
        write = self._writes[mark] = Write(mark, offset, term, at, self._end_of(term))
        return write

    def on_delete(self, mark: str, at: float) -> Write:
        """Records a deletion, which must happen only once in a history, because two could not be distinguished."""
        assert self._deletion is None
        write = self._deletion = Write(mark, NO_OFFSET, NO_TERM, at)
        return write

    def on_acknowledged(self, write: Write, at: float) -> None:
        self._check_term(write)
        self.acknowledged += 1
        write.ended = min(write.ended, at)
        self._extend(write, write.began, write.ended)

    def on_refused(self, write: Write) -> None:
        """Records that a write was refused, so that it never happens."""
        write.is_refused = True
        self._check(not write.has_happened, f"{write} was refused, but a fetch has seen it")

    def on_term(self, term: int, at: float) -> None:
        """Records that a client was told that the term has begun."""
        if self._told and term <= self._told[-1][0]:
            return
        self._told.append((term, at))
        for write in self._writes.values():
            if write.term != NO_TERM and write.term < term:
                write.ended = min(write.ended, at)

    # fetches

    def on_fetched(self, offset: int, mark: str, began: float, ended: float) -> None:
        self.fetches += 1
        write = self._seen(offset, mark, began)
        self._check(not write.is_refused, f"{write} was refused, and a fetch saw it")
        self._check(write.offset == offset, f"{write} was fetched as offset {offset}")
        self._check(ended >= write.began, f"{write} was fetched before it was sent")
        self._check_term(write)
        self._extend(write, began, ended)

    def _seen(self, offset: int, mark: str, began: float) -> Write:
        if offset != NO_OFFSET:
            write = self._writes.get(mark)
            self._check(write is not None, f"offset {offset} with {mark!r} was fetched, which nobody committed")
            assert write is not None
            return write
        # Nothing exists before the first commit or after the deletion: if one of the two cases is impossible, it is the
        # other.
        ended_before = [each for each in self._happened[1:] if each.first_end < began]
        if ended_before and self._deletion is not None:
            return self._deletion
        return self._initial

    # the order of writes

    def _extend(self, write: Write, began: float, ended: float) -> None:
        if not write.has_happened:
            self._happened.append(write)
            write.last_begin, write.first_end = write.began, write.ended
        write.last_begin = max(write.last_begin, began)
        write.first_end = min(write.first_end, ended)
        for other in self._happened:
            if other is not write:
                contradict = other.first_end < write.last_begin and write.first_end < other.last_begin
                self._check(
                    not contradict,
                    f"{other} happened by {other.first_end:.3f} s and held at {other.last_begin:.3f} s, {write} by "
                    f"{write.first_end:.3f} s and at {write.last_begin:.3f} s: one of them came back",
                )

    def _check_term(self, write: Write) -> None:
        self._check(
            write.began <= write.ended,
            f"{write} of term {write.term} happened, and was sent at {write.began:.3f} s, after a later term had begun "
            f"at {write.ended:.3f} s",
        )

    def _end_of(self, term: int) -> float:
        if term == NO_TERM:
            return inf
        return next((at for told, at in self._told if told > term), inf)

    def _check(self, holds: bool, sentence: str) -> None:
        if not holds:
            raise GroupHistoryError(f"{self._name}: {sentence}")
