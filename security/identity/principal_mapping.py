"""The rules that make the name of a user from the distinguished name of a certificate, as in Apache Kafka.

`ssl.principal.mapping.rules` lists rules, divided by commas. `DEFAULT` takes the whole name. A rule
`RULE:PATTERN/REPLACEMENT/` applies to names that match the whole pattern. `$1` in the replacement stands for the first
group of the pattern. `L` or `U` after the last slash makes the result lower or upper case. The first rule that applies
decides.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from tailrace.runtime.settings import SettingsError

from .principal import USER, Principal

SETTING = "ssl.principal.mapping.rules"
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|\n|$)", re.DOTALL)
_REFERENCE = re.compile(r"\\(.)|\$(\d)|\$\{(\w+)\}|\$", re.DOTALL)
_CASES: dict[str, Callable[[str], str]] = {"": str, "L": str.lower, "U": str.upper}
_SHOWN_MAX = 200


class UnmappedNameError(Exception):
    """No rule applies to the name of a certificate. The message is one sentence."""


class _Rule(Struct, frozen=True):
    """A pattern, and what to make of the names that match it."""

    pattern: re.Pattern[str]
    replacement: tuple[str | int, ...]
    """Texts and numbers of groups."""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Returns the name of the user, or None if the pattern does not match the whole name."""
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        made = (each if isinstance(each, str) else match[each] or "" for each in self.replacement)
        return _CASES[self.case]("".join(made))


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, rules: str) -> None:
        """Parses the text of the setting. Raises SettingsError."""
        self._rules: list[_Rule | None] = []
        """The rules in their order; None stands for DEFAULT."""
        position = 0
        while position < len(rules):
            match = _RULE.match(rules, position)
            if match is None or match.end() == position:
                shown = rules[position : position + _SHOWN_MAX].strip()
                raise SettingsError(
                    f"{SETTING}: {shown!r} is neither DEFAULT nor RULE:PATTERN/REPLACEMENT/ with L or U"
                )
            position = match.end()
            self._rules.append(None if match[1] else _parsed(match[2], match[3], match[4]))

    def principal_of(self, distinguished_name: str) -> Principal:
        """Returns the user whom a certificate names. Raises UnmappedNameError."""
        for rule in self._rules:
            name = distinguished_name if rule is None else rule.apply(distinguished_name)
            if name is not None:
                return Principal(USER, name)
        raise UnmappedNameError(f"no rule of {SETTING} applies to {distinguished_name[:_SHOWN_MAX]!r}")


def _parsed(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SettingsError(f"{SETTING}: {pattern[:_SHOWN_MAX]!r} is not a pattern: {error}") from error
    parts: list[str | int] = []
    position = 0
    for match in _REFERENCE.finditer(replacement):
        parts.append(replacement[position : match.start()])
        position = match.end()
        if match[1] is not None:
            parts.append(match[1])
            continue
        group = _group(compiled, match[2] or match[3])
        if group is None:
            raise SettingsError(
                f"{SETTING}: {match[0]!r} in {replacement[:_SHOWN_MAX]!r} names no group of {pattern[:_SHOWN_MAX]!r}"
            )
        parts.append(group)
    parts.append(replacement[position:])
    return _Rule(compiled, tuple(parts), case)


def _group(pattern: re.Pattern[str], name: str | None) -> int | None:
    """Returns the number of a group by its number or name."""
    if name is None:
        return None
    number = int(name) if name.isdecimal() else pattern.groupindex.get(name, -1)
    return number if 0 <= number <= pattern.groups else None
