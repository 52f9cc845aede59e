"""Loads a file and finds the function in it that handles events: one with `@trigger`, or Nuclio's `handler`.

The file becomes a module as with an import, under the name of the file if no other module has it, so that its
neighbours can import it. Its directory comes first in `sys.path`, as for a script.
"""

import importlib
import inspect
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.similar_names import similar
from tailrace.trigger.config.trigger_settings import Given, Layer, TriggerConfigError

from .function_source import FunctionLoadError, FunctionSource, read_source
from .trigger_decorator import declared

DEFAULT_HANDLER = "handler"
"""The name of the function in a file without `@trigger`, as Nuclio has it."""
INIT_CONTEXT = "init_context"
_WITHOUT_MEANING = frozenset({DEFAULT_HANDLER, "handle", "main"})
"""Names of functions that say nothing, so that the trigger gets the name of the file."""


class Function(Struct, frozen=True):
    """A function that was loaded."""

    name: str
    """The name of the trigger, unless a file or a flag gives another one."""
    call: Callable[..., Any]
    init_context: Callable[..., Any] | None
    """What is called once with the context before the first event; it may be `async def`."""
    is_async: bool
    declared: Layer
    """The settings of `@trigger`, the name included."""
    source: FunctionSource
    """The source with the name of the function in it."""
    line: int

    @property
    def place(self) -> str:
        return f"{self.source.path}: line {self.line}"


def load(source: FunctionSource) -> Function:
    """Loads the file and returns the function in it. Raises FunctionLoadError and TriggerConfigError."""
    module = _import(source, read_source(source))
    call = _choose(source, module)
    path, line = source.path, call.__code__.co_firstlineno
    _check_call(f"{path}: line {line}: {call.__name__}", call, 2, "(context, event)")
    init_context = getattr(module, INIT_CONTEXT, None)
    if init_context is not None:
        _check_call(f"{path}: {INIT_CONTEXT}", init_context, 1, "(context)")
    name = _name(source, call)
    layer = declared(call) or {}
    return Function(
        name=str(layer["name"].value) if "name" in layer else name,
        call=call,
        init_context=init_context,
        is_async=inspect.iscoroutinefunction(call),
        declared={"name": Given(name, f"{path}: line {line}"), **layer},
        source=replace(source, handler=call.__name__ if source.handler is None else source.handler),
        line=line,
    )


# the module


def _import(source: FunctionSource, text: str) -> ModuleType:
    path = source.path
    # Tracebacks show the lines of the snapshot, and not those of a file that has changed since.
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    try:
        code = compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise FunctionLoadError(f"{path}: line {error.lineno}: {error.msg}") from error
    except ValueError as error:
        raise FunctionLoadError(f"{path}: {error}") from error
    if source.import_directory not in sys.path:
        sys.path.insert(0, source.import_directory)
    package = _package(source)
    module = ModuleType(f"{package}.{_stem(path)}" if package else _module_name(path))
    module.__file__, module.__package__ = path, package
    sys.modules[module.__name__] = module
    try:
        if package:
            importlib.import_module(package)
        exec(code, module.__dict__)
    except (KeyboardInterrupt, TriggerConfigError):
        del sys.modules[module.__name__]
        raise
    except BaseException as error:
        del sys.modules[module.__name__]
        raise FunctionLoadError(_failure(path, error)) from error
    return module


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _package(source: FunctionSource) -> str:
    """Returns the package of the file, if it lies below the directory of imports; else nothing."""
    folder = os.path.relpath(os.path.dirname(source.path), source.import_directory)
    parts = folder.split(os.sep)
    return ".".join(parts) if all(part.isidentifier() for part in parts) else ""


def _module_name(path: str) -> str:
    stem = _stem(path)
    other = sys.modules.get(stem)
    is_free = other is None or getattr(other, "__file__", None) == path
    return stem if is_free and stem not in sys.stdlib_module_names else f"tailrace_function_{stem}"


def _failure(path: str, error: BaseException) -> str:
    """Says in one line where and how the file failed while it was loaded."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    place = f"{path}: line {lines[-1]}" if lines else path
    what = " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError):
        return f"{place}: {what}: install it for {sys.executable}, or check the name"
    if isinstance(error, SystemExit):
        return f"{place}: the file ends the process while it is loaded: put that under `if __name__ == '__main__'`"
    return f"{place}: {type(error).__name__}{': ' if what else ''}{what}"


# the function


def _choose(source: FunctionSource, module: ModuleType) -> FunctionType:
    here: dict[str, FunctionType] = {name: each for name, each in vars(module).items() if _is_defined_in(each, module)}
    with_trigger = {name: each for name, each in here.items() if declared(each) is not None}
    wanted = source.handler
    if wanted is None:
        if len(with_trigger) == 1:
            return next(iter(with_trigger.values()))
        if with_trigger:
            raise FunctionLoadError(
                f"{source.path}: {_listed(with_trigger)} have @trigger: choose one, for example "
                f"{os.path.basename(source.path)}:{next(iter(with_trigger))}"
            )
        wanted = DEFAULT_HANDLER
    found = vars(module).get(wanted)
    if isinstance(found, FunctionType):
        return found
    if source.handler is None:
        raise FunctionLoadError(
            f"{source.path}: no function has @trigger, and none is named {DEFAULT_HANDLER}"
            + (f": choose one, for example {os.path.basename(source.path)}:{next(iter(here))}" if here else "")
        )
    if found is not None:
        raise FunctionLoadError(f"{source.path}: {wanted} is not a function that was defined with def or async def")
    guess = similar(wanted, here)
    raise FunctionLoadError(
        f"{source.path}: there is no function {wanted}" + (f"; did you mean {guess}?" if guess else "")
    )


def _is_defined_in(value: object, module: ModuleType) -> bool:
    return (
        isinstance(value, FunctionType)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
        and value.__name__ != INIT_CONTEXT
    )


def _check_call(subject: str, call: object, count: int, arguments: str) -> None:
    """Refuses a function that cannot be called with so many arguments, or whose call would not run it."""
    if not callable(call):
        raise FunctionLoadError(f"{subject} is not a function")
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise FunctionLoadError(f"{subject} has a yield, so that a call does not run it: use context.emit")
    try:
        inspect.signature(call).bind(*range(count))
    except TypeError as error:
        raise FunctionLoadError(f"{subject} must take {arguments}: {error}") from error


def _name(source: FunctionSource, call: FunctionType) -> str:
    if call.__name__ not in _WITHOUT_MEANING:
        return call.__name__.strip("_") or "function"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", _stem(source.path)).strip("-._") or "function"


def _listed(names: Mapping[str, object]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
