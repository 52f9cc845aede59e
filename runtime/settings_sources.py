"""Where a server's settings come from: a TOML file, then the environment, then flags; the last one wins.

Every setting has one name. `public` is the flag `--public`, the environment variable `TAILRACE_PUBLIC`, and the line
`public = …` of the file; Kafka's own broker settings (`num.partitions`) stand in the file's table `[broker]`.
"""

from collections.abc import Mapping
from pathlib import PurePath

from .settings import SettingsError

ENVIRONMENT_PREFIX = "TAILRACE_"
TABLE = "broker"
"""Not one line, so neither a flag nor the environment can say it."""


def read_file(path: str, text: bytes) -> dict[str, object]:
    """The settings of a TOML file, given its content."""
    import tomllib  # few start with a file

    try:
        return tomllib.loads(text.decode())
    except ValueError as error:  # also of a number with more digits than Python reads
        raise SettingsError(f"{path}: not a TOML file: {error}") from error
    except RecursionError as error:
        raise SettingsError(f"{path}: it is nested too deeply") from error


def merge(
    names: frozenset[str], file: Mapping[str, object], environment: Mapping[str, str], flags: Mapping[str, object]
) -> dict[str, object]:
    """One value per name, from the last source that has it. A name that nobody knows is an error, not a silence."""
    unknown = sorted(set(file) - names)
    if unknown:
        raise SettingsError(f"the settings file has no setting {unknown[0]!r}; there are: {', '.join(sorted(names))}")
    merged = dict(file)
    for name in names - {TABLE}:
        variable = ENVIRONMENT_PREFIX + name.upper().replace("-", "_")
        if variable in environment:
            merged[name] = environment[variable]
        if flags.get(name) is not None:
            merged[name] = flags[name]
    return merged


def default_data_directory(environment: Mapping[str, str]) -> str:
    """Under the user's data directory, as the XDG convention has it."""
    root = PurePath(environment.get("XDG_DATA_HOME", ""))
    if not root.is_absolute():  # a relative one counts for nothing: it would depend on where we were started
        root = PurePath(environment.get("HOME", ".")) / ".local" / "share"
    return str(root / "tailrace")
