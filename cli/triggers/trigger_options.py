"""The options that describe a trigger, for commands that take the file of a function: `run`, `deploy` and `invoke`.

The configuration comes from `@trigger` in the file, from a file of Nuclio's shape or such comments in the function's
file, and from the flags; each of them overrides the ones before. Every setting has a flag of its name.
"""

import argparse
import os
import sys
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cli.options.document_files import DocumentError
from tailrace.cli.options.sc_options import UsageError, text_of_file
from tailrace.trigger.config.function_yaml import FunctionFile, read_function_yaml, read_inline_yaml
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.config.trigger_settings import (
    SETTINGS,
    Given,
    Layer,
    TriggerConfigError,
    merge_layers,
    read_layer,
)
from tailrace.trigger.functions.function_loader import Function, load
from tailrace.trigger.functions.function_source import FunctionLoadError, FunctionSource, read_source, source_of

_DESTINATION = "setting_"
_REPEATED = {"environment": "--env"}
"""Settings whose flag may occur several times."""
_SWITCHES = frozenset({"split_batch"})
_OTHER_FLAGS = {"brokers": "--bootstrap"}
CONFIG_SUFFIXES = (".yaml", ".yml", ".json")
CONFIG_NAME = "function.yaml"
"""The name of the configuration file in a directory that is given instead of a file, as in Nuclio."""


class GivenTrigger(Struct, frozen=True):
    """A trigger as a command line describes it."""

    config: TriggerConfig
    function: Function
    warnings: tuple[str, ...]
    """Sentences about what is ignored; the command prints them on standard error."""

    @property
    def source(self) -> FunctionSource:
        """Where the function is, for worker processes."""
        return self.function.source


def add_function(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Adds the file of the function, and the file of its configuration."""
    parser.add_argument(
        "file",
        nargs="?" if is_optional else None,
        metavar="FILE[:NAME]",
        help="Python file, and the function in it if the file has several. A file of Nuclio's shape, such as "
        f"{CONFIG_NAME}, stands for the handler that it names.",
    )
    parser.add_argument("--config", metavar="YAML", help="Configuration of the function in Nuclio's shape.")
    parser.add_argument(
        "--trigger", metavar="NAME", help="Which trigger of the configuration file, if several read a stream."
    )


def add_settings(
    parser: argparse.ArgumentParser, *, only: Collection[str] = SETTINGS.keys(), without: Collection[str] = ()
) -> None:
    """Adds a flag for each setting of a trigger, except those that have no effect, or that the command has itself."""
    group = parser.add_argument_group("settings of the trigger")
    for name, setting in SETTINGS.items():
        if name in without or name not in only:
            continue
        flag = flag_of(name)
        destination = _DESTINATION + name
        if name in _SWITCHES:
            group.add_argument(flag, dest=destination, action="store_const", const="true", help=setting.help)
        else:
            action = "append" if name in _REPEATED else "store"
            group.add_argument(flag, dest=destination, metavar=setting.metavar, action=action, help=setting.help)


def flag_of(setting: str) -> str:
    """Returns the flag of a setting."""
    return _REPEATED.get(setting) or _OTHER_FLAGS.get(setting) or f"--{setting.replace('_', '-')}"


def flag_layer(arguments: argparse.Namespace) -> Layer:
    """Returns the settings that flags give."""
    return {
        name: Given(value, flag_of(name))
        for name in SETTINGS
        if (value := getattr(arguments, _DESTINATION + name, None)) is not None
    }


def given_trigger(
    arguments: argparse.Namespace, *, general: Layer | None = None, environment: Mapping[str, str] | None = None
) -> GivenTrigger:
    """Loads the function, and merges its configuration from all sources. Raises UsageError.

    `general` has values that every source overrides.
    """
    source, file = _files(arguments, os.environ if environment is None else environment)
    given = [*([file.layer] if file is not None else []), flag_layer(arguments)]
    function = _load_aside(source, _variables(given))
    layers = [general or {}, function.declared, *given]
    try:
        config = merge_layers(layers, origin=function.place)
    except TriggerConfigError as error:
        raise UsageError(str(error)) from error
    return GivenTrigger(config, function, () if file is None else file.warnings)


def _variables(given: Sequence[Layer]) -> Mapping[str, str]:
    """Returns the environment variables that the configuration file or the flags give. Raises UsageError."""
    found: Mapping[str, str] = {}
    try:
        for layer in given:
            if "environment" in layer:
                read = read_layer({"environment": layer["environment"]})["environment"].value
                assert isinstance(read, Mapping)
                found = read
    except TriggerConfigError as error:
        raise UsageError(str(error)) from error
    return found


def _load_aside(source: FunctionSource, variables: Mapping[str, str]) -> Function:
    """Loads a function to learn what `@trigger` says about it. Raises UsageError.

    The file may read the variables of the trigger while it is loaded. They and the directory of the file, in
    `sys.path`, stay only that long, so that its neighbours never take the place of modules that the command imports
    later.
    """
    path, before = list(sys.path), {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        return load_function(source)
    finally:
        sys.path[:] = path
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def load_function(source: FunctionSource) -> Function:
    """Loads a function in order to call it. Raises UsageError."""
    try:
        return load(source)
    except (FunctionLoadError, TriggerConfigError) as error:
        raise UsageError(str(error)) from error


def _files(arguments: argparse.Namespace, environment: Mapping[str, str]) -> tuple[FunctionSource, FunctionFile | None]:
    """Returns the source of the function, and what the configuration file says if there is one."""
    target, config = arguments.file, arguments.config
    if os.path.isdir(target):
        target = os.path.join(target, CONFIG_NAME)
    if not target.endswith(CONFIG_SUFFIXES):
        source = source_of(target)
        if config is not None:
            file: FunctionFile | None = _config_file(config, arguments.trigger, environment)
        else:
            file = _inline(source, arguments.trigger, environment)
        if file is None:
            if arguments.trigger is not None:
                raise UsageError("--trigger has no effect without a configuration file: give one with --config")
            return source, None
        if source.handler is None and file.handler is not None:
            source = replace(source, handler=_handler_parts(file.handler, config or target)[1])
        return source, file
    if config is not None:
        raise UsageError(f"--config {config}: {target} is the configuration already")
    file = _config_file(target, arguments.trigger, environment)
    if file.handler is None:
        raise UsageError(f"{target}: the field handler is missing: write `handler: MODULE:FUNCTION` below spec")
    module, name = _handler_parts(file.handler, target)
    directory = os.path.dirname(os.path.abspath(target))
    path = os.path.join(directory, *module.split(".")) + ".py"
    return FunctionSource(path, name, file.source, directory), file


def _handler_parts(handler: str, config: str) -> tuple[str, str]:
    """Divides Nuclio's `module:function`."""
    module, colon, name = handler.partition(":")
    if not all(part.isidentifier() for part in (*module.replace("-", "_").split("."), name if colon else "handler")):
        raise UsageError(f"{config}: handler: {handler} is not MODULE:FUNCTION, such as main:handler")
    return module, name or "handler"


def _inline(source: FunctionSource, trigger: str | None, environment: Mapping[str, str]) -> FunctionFile | None:
    """Reads the configuration in the comments of the function's file, if there is one."""
    try:
        return read_inline_yaml(read_source(source), source.path, trigger=trigger, environment=environment)
    except (FunctionLoadError, TriggerConfigError) as error:
        raise UsageError(str(error)) from error


def _config_file(path: str, trigger: str | None, environment: Mapping[str, str]) -> FunctionFile:
    try:
        return read_function_yaml(text_of_file(path), path, trigger=trigger, environment=environment)
    except (TriggerConfigError, DocumentError) as error:
        raise UsageError(str(error)) from error
