"""The texts of settings, with Kafka's overrides for single listeners.

`listener.name.public.ssl.client.auth` applies to the listener PUBLIC alone, and takes precedence over
`ssl.client.auth`.
"""

from collections.abc import Collection, Mapping

from tailrace.runtime.settings import SettingsError

from .listener_overrides import override_of, split_override


class SettingTexts:
    """The given settings by name. No text is shown in the `repr`, because some are secret."""

    __slots__ = ("_given",)

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)

    def of(self, name: str, listener: str = "") -> str | None:
        """Returns the text for a listener, or for all listeners; None if nothing, or an empty text, is given."""
        if listener and (override := self._given.get(override_of(name, listener))) is not None:
            return override.strip() or None
        return self._given.get(name, "").strip() or None

    def name_of(self, name: str, listener: str = "") -> str:
        """Returns the name under which the text for a listener was given, for messages."""
        if listener and override_of(name, listener) in self._given:
            return override_of(name, listener)
        return name

    def one_of(self, name: str, allowed: Collection[str], default: str, listener: str = "") -> str:
        """Returns one of the allowed texts. Raises SettingsError."""
        text = self.of(name, listener)
        if text is None:
            return default
        if text not in allowed:
            raise SettingsError(
                f"{self.name_of(name, listener)}: {text[:200]!r} is not allowed; it takes one of {', '.join(allowed)}"
            )
        return text

    def listed(self, name: str, listener: str = "") -> tuple[str, ...]:
        """Returns the entries of a list that is divided by commas, without repetitions; none if nothing is given."""
        text = self.of(name, listener)
        if text is None:
            return ()
        entries = tuple(dict.fromkeys(entry.strip() for entry in text.split(",")))
        if not all(entries):
            raise SettingsError(f"{self.name_of(name, listener)}: an entry of the list is empty")
        return entries

    def overrides(self) -> list[tuple[str, str]]:
        """Returns the listener, in small letters, and the setting of each override that was given."""
        parsed = (split_override(name) for name in self._given)
        return [each for each in parsed if each is not None]

    def __repr__(self) -> str:
        return f"SettingTexts({', '.join(sorted(self._given))})"
