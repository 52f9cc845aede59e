"""`tailrace config check [FILE]`: checks a settings file and the environment, and starts nothing.

The command prints every problem with its line, and the settings that a server would use with the source of each. The
exit status is 2 if there is a problem.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from tailrace.cli.options.sc_options import DONE, OUTPUTS, WRONG_USAGE, say, show_documents
from tailrace.cli.output.tables import table
from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_definitions import text_of
from tailrace.cluster.similar_names import similar
from tailrace.runtime.settings import SettingsError
from tailrace.runtime.settings_sources import (
    CONFIG_VARIABLE,
    TABLE,
    broker_configs_of,
    broker_variable_of,
    merge,
    read_file,
    variable_of,
)

from .effective_settings import KINDS, ServerKind
from .given_settings import (
    GivenSettings,
    about_unknown,
    content_of,
    ineffective_variables,
    unknown_broker_variables,
)
from .listener_variables import listener_overrides
from .setting_lines import TOP, setting_lines

DEFAULT = "default"
REQUIRED = "required"
"""The source of a setting that has no default, and that a flag has to give."""
_NAME = "config check"
_PROBLEMS_MAX = 100
_HIDDEN = "(not shown)"
_CONFIG_NAME = re.compile(r"[a-z0-9]+(?:\.[a-z0-9]+)+")


class Problem(Struct, frozen=True):
    """Something that is wrong, and where."""

    place: str
    """The file with its line, or an environment variable; empty if the place is in the sentence."""
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}" if self.place else self.sentence


class Effective(Struct, frozen=True):
    """A setting with its value, and where the value comes from."""

    name: str
    value: str
    source: str


class Checked(Struct, frozen=True):
    """What a check has found."""

    problems: list[Problem]
    settings: list[Effective]
    """The settings that a server would use, without those that are wrong."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("file", metavar="FILE", nargs="?", help=f"Settings file in TOML (default: ${CONFIG_VARIABLE}).")
    parser.add_argument(
        "--server", choices=sorted(KINDS), default="up", help="Server that the settings are for (default: up)."
    )
    parser.add_argument("--all", action="store_true", help="Show all broker configs, also those that are not set.")
    parser.add_argument("--output", "-o", choices=OUTPUTS, default="table", help="Output format (default: table).")


def run(arguments: argparse.Namespace) -> int:
    """Checks, prints what was found, and returns the exit status."""
    path = arguments.file or os.environ.get(CONFIG_VARIABLE)
    found = check(KINDS[arguments.server], path, os.environ, shows_all=arguments.all)
    documents: Any = {
        "problems": [{"place": each.place, "problem": each.sentence} for each in found.problems],
        "settings": [{"name": each.name, "value": each.value, "source": each.source} for each in found.settings],
    }
    rows = [(each.name, each.value, each.source) for each in found.settings]
    show_documents(arguments, documents, lambda: table(("SETTING", "VALUE", "SOURCE"), rows))
    sys.stdout.flush()
    for problem in found.problems:
        say(_NAME, str(problem))
    return WRONG_USAGE if found.problems else DONE


def check(kind: ServerKind, path: str | None, environment: Mapping[str, str], *, shows_all: bool = False) -> Checked:
    """Checks the file and the environment for a kind of server."""
    content = b""
    if path is not None:
        try:
            content = content_of(path)
        except SettingsError as error:
            return Checked([Problem("", str(error))], [])
    return _Check(kind, path or "", content, environment).result(shows_all=shows_all)


class _Check:
    """One check. Removes what is wrong until the rest can be read, so that every problem is found."""

    def __init__(self, kind: ServerKind, path: str, content: bytes, environment: Mapping[str, str]) -> None:
        self._kind = kind
        self._path = path
        self._environment = environment
        self._problems = [
            Problem("", about_unknown(each))
            for each in (*unknown_broker_variables(environment), *ineffective_variables(environment))
        ]
        self._lines = setting_lines(content.decode(errors="replace"))
        file = self._read(content)
        broker = file.pop(TABLE, {})
        self._broker = self._broker_of(broker)
        known = {name: value for name, value in file.items() if self._is_known(name)}
        self._variables = broker_configs_of(environment, (*BROKER_CONFIGS, *listener_overrides(environment)))
        self._merged = merge(kind.names | {TABLE}, known, environment, {})
        self._broker_defaults: Mapping[str, str] = {}

    def _read(self, content: bytes) -> dict[str, object]:
        try:
            return read_file(self._path, content)
        except SettingsError as error:
            line = re.search(r"at line (\d+)", str(error))
            place = self._path if line is None else f"{self._path}:{line[1]}"
            self._problems.append(Problem(place, str(error).removeprefix(f"{self._path}: ")))
            return {}

    def _is_known(self, name: str) -> bool:
        if name not in self._kind.names:
            close = similar(name, self._kind.names)
            guess = "" if close is None else f"; did you mean {close}?"
            self._problems.append(Problem(self._place(TOP, name), f"there is no setting {name!r}{guess}"))
        return name in self._kind.names

    def _broker_of(self, broker: object) -> dict[str, object]:
        try:
            GivenSettings({TABLE: broker}, []).broker_settings()
        except SettingsError as error:
            sentence = str(error).removeprefix("the settings file: ")
            self._problems.append(Problem(self._place(TOP, TABLE), sentence))
            return {}
        assert isinstance(broker, dict)
        return dict(broker)

    def _place(self, within: str, name: str) -> str:
        line = self._lines.get((within, name))
        return self._path if line is None else f"{self._path}:{line}"

    def result(self, *, shows_all: bool) -> Checked:
        """Returns what is wrong, and the effective settings."""
        values: Mapping[str, str] = {}
        for _ in range(_PROBLEMS_MAX):
            given = GivenSettings({**self._kind.placeholders, **self._merged, TABLE: self._broker}, [], self._variables)
            try:
                values = self._kind.read(given)
                self._broker_defaults = self._kind.broker_defaults(given)
                BrokerConfigs({**self._broker_defaults, **given.broker_settings()})
                break
            except SettingsError as error:
                if not self._remove_culprit(str(error)):
                    self._problems.append(Problem("", str(error)))
                    break
        settings = [
            Effective(name, "" if (source := self._source(name)) == REQUIRED else value, source)
            for name, value in values.items()
        ]
        return Checked(
            sorted(self._problems, key=_place_key), settings + list(self._broker_settings(shows_all=shows_all))
        )

    def _remove_culprit(self, sentence: str) -> bool:
        """Finds out which setting a sentence is about, notes the problem, and removes the setting."""
        flag = re.match(r"--([a-z-]+)", sentence)
        if flag is not None and flag[1] in self._merged:
            self._problems.append(Problem(self._source(flag[1]), sentence))
            del self._merged[flag[1]]
            return True
        for name in _CONFIG_NAME.findall(sentence):
            for given in (self._variables, self._broker):
                if name in given:
                    self._problems.append(Problem(self._broker_source(name), sentence))
                    del given[name]
                    return True
        return False

    def _source(self, name: str) -> str:
        if name not in self._merged:
            return REQUIRED if name in self._kind.placeholders else DEFAULT
        variable = variable_of(name)
        return variable if self._environment.get(variable) else self._place(TOP, name)

    def _broker_source(self, name: str) -> str:
        if name in self._variables:
            return broker_variable_of(name)
        if name in self._broker:
            return self._place(TABLE, name)
        return f"{DEFAULT} of {self._kind.command}" if name in self._broker_defaults else DEFAULT

    def _broker_settings(self, *, shows_all: bool) -> Iterator[Effective]:
        texts = {
            **self._broker_defaults,
            **GivenSettings({TABLE: self._broker}, [], self._variables).broker_settings(),
        }
        for name, definition in sorted(BROKER_CONFIGS.items()):
            if name in texts or (shows_all and not definition.hidden):
                text = texts.get(name) or text_of(definition.default) or ""
                yield Effective(name, _HIDDEN if definition.sensitive else text, self._broker_source(name))


def _place_key(problem: Problem) -> tuple[str, int]:
    """Sorts problems by file and line."""
    path, _, line = problem.place.rpartition(":")
    return (path, int(line)) if line.isdecimal() else (problem.place, 0)
