"""The result of a job: facts that a person can check, a verdict, and the exit status that follows from it."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

OK = 0
NOT_OK = 1


class JobResult(Struct, frozen=True):
    """What a job has done, and whether all is as it should be."""

    job: str
    is_ok: bool
    verdict: str
    """One sentence."""
    facts: Mapping[str, str | int | float | None] = field(default_factory=dict)
    """Names and values, in the order in which they are shown."""

    @property
    def status(self) -> int:
        """The exit status of a command that ran the job."""
        return OK if self.is_ok else NOT_OK

    def text(self) -> str:
        """Returns the facts in two columns, and the verdict below them."""
        width = max(map(len, self.facts), default=0)
        lines = [f"{name:<{width}}  {_shown(value)}" for name, value in self.facts.items()]
        return "\n".join([*lines, f"{'ok' if self.is_ok else 'not ok'}: {self.verdict}"])

    def json(self) -> str:
        """Returns the result as one JSON document."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


def _shown(value: str | int | float | None) -> str:
    match value:
        case None:
            return "-"
        case int():
            return f"{value:,}".replace(",", " ")
        case float():
            return f"{value:.3f}"
    return value
