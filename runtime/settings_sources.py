"""Merges a server's settings from a TOML file, the environment and flags; the last source wins.

Every setting has one name. `public` is the flag `--public`, the environment variable `TAILRACE_PUBLIC`, and the line
`public = …` of the file. Kafka's own broker settings (`num.partitions`) are in the file's table `[broker]`, and in
environment variables such as `TAILRACE_BROKER_NUM_PARTITIONS`.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from .settings import SettingsError

ENVIRONMENT_PREFIX = "TAILRACE_"
BROKER_PREFIX = "TAILRACE_BROKER_"
CONFIG_VARIABLE = "TAILRACE_CONFIG"
"""The environment variable that names the settings file."""
SC_VARIABLE = "TAILRACE_SC"
BOOTSTRAP_VARIABLE = "TAILRACE_BOOTSTRAP"
CLIENT_CONFIG_VARIABLE = "TAILRACE_CLIENT_CONFIG"
"""The environment variable that names the file with the security settings of client commands."""
CLIENT_VARIABLES = frozenset({SC_VARIABLE, BOOTSTRAP_VARIABLE, CLIENT_CONFIG_VARIABLE})
"""The environment variables of client commands. The shell that starts a server may have them too."""
_FOREIGN = re.compile(r"TAILRACE_TEST_\w+|\w+_SERVICE_(HOST|PORT(_\w+)?)|\w+_PORT(_[0-9]+_(TCP|UDP|SCTP)(_\w+)?)?")
"""Variables that are not settings: those of our tests, and those of Kubernetes for a service called `tailrace`."""
TABLE = "broker"
"""The name of the table of broker settings. It is not a single value, so flags and the environment cannot set it."""


def read_file(path: str, text: bytes) -> dict[str, object]:
    """Returns the settings of a TOML file with this content."""
    import tomllib  # imported here because few servers are started with a file

    try:
        return tomllib.loads(text.decode())
    except ValueError as error:  # raised also for a number with too many digits for Python
        raise SettingsError(f"{path}: not a TOML file: {error}") from error
    except RecursionError as error:
        raise SettingsError(f"{path}: it is nested too deeply") from error


def merge(
    names: frozenset[str], file: Mapping[str, object], environment: Mapping[str, str], flags: Mapping[str, object]
) -> dict[str, object]:
    """Returns one value per name, from the last source that has it.

    Raises SettingsError for an unknown name in the file.
    """
    unknown = sorted(set(file) - names)
    if unknown:
        raise SettingsError(f"the settings file has no setting {unknown[0]!r}; there are: {', '.join(sorted(names))}")
    merged = dict(file)
    for name in names - {TABLE}:
        variable = variable_of(name)
        if environment.get(variable):  # an empty variable counts as none, as in files of Docker Compose
            merged[name] = environment[variable]
        if flags.get(name) is not None:
            merged[name] = flags[name]
    return merged


def variable_of(name: str) -> str:
    """Returns the environment variable of a setting."""
    return ENVIRONMENT_PREFIX + name.upper().replace("-", "_")


def broker_variable_of(config: str) -> str:
    """Returns the environment variable of a broker config."""
    return BROKER_PREFIX + config.upper().replace(".", "_")


def broker_configs_of(environment: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """Returns the `known` broker configs that environment variables set."""
    return {name: environment[variable] for name in known if environment.get(variable := broker_variable_of(name))}


def unknown_variables(environment: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """Returns the variables that look like settings of Tailrace and are not among the `known` ones."""
    ours = {name for name in environment if name.startswith(ENVIRONMENT_PREFIX) and environment[name]}
    return sorted(name for name in ours - set(known) if _FOREIGN.fullmatch(name) is None)


def default_data_directory(environment: Mapping[str, str]) -> str:
    """Returns the data directory below the user's data directory, following the XDG convention.

    Raises SettingsError if the user has no home.
    """
    root = PurePath(environment.get("XDG_DATA_HOME", ""))
    if not root.is_absolute():  # XDG ignores relative paths, since they would depend on the working directory
        root = _home(environment) / ".local" / "share"
    return str(root / "tailrace")


def _home(environment: Mapping[str, str]) -> PurePath:
    """Returns the user's home: `HOME`, or what the user database says if that is missing, empty or relative."""
    home = PurePath(environment.get("HOME", ""))
    if not home.is_absolute():
        import pwd  # imported here because nearly every process has HOME

        try:
            home = PurePath(pwd.getpwuid(os.getuid()).pw_dir)
        except KeyError:
            home = PurePath()
    if not home.is_absolute():
        raise SettingsError("there is no home directory for the data: choose a directory with --data, or set HOME")
    return home
