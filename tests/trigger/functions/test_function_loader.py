import asyncio
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tailrace.trigger.config.trigger_settings import TriggerConfigError, merge_layers
from tailrace.trigger.functions.function_loader import load
from tailrace.trigger.functions.function_source import FunctionLoadError, FunctionSource, source_of, with_snapshot

NUCLIO = """
    import json

    def init_context(context):
        context.user_data.count = 0

    def handler(context, event):
        context.logger.info_with("Got event", shard=event.shard_id)
        return json.loads(event.body)
"""
TWO = """
    from tailrace.trigger import trigger

    @trigger("orders")
    def bill(context, event): ...

    @trigger("orders", name="shipper")
    def ship(context, event): ...
"""


@pytest.fixture(autouse=True)
def _unchanged_imports() -> Iterator[None]:
    modules, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def _file(tmp_path: Path, text: str, name: str = "billing.py") -> Path:
    path = tmp_path / name
    path.write_text(dedent(text))
    return path


def _error(tmp_path: Path, text: str, handler: str | None = None) -> str:
    path = _file(tmp_path, text)
    with pytest.raises(FunctionLoadError) as caught:
        load(FunctionSource(str(path), handler))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(str(path))


def test_a_file_of_nuclio_loads_unchanged(tmp_path: Path) -> None:
    function = load(FunctionSource(str(_file(tmp_path, NUCLIO))))
    assert function.name == "billing", "handler says nothing, so the file gives the name"
    assert function.call.__name__ == "handler"
    assert function.init_context is not None
    assert not function.is_async
    assert function.source.handler == "handler"


def test_the_only_function_with_a_trigger_is_found(tmp_path: Path) -> None:
    text = """
        from tailrace.trigger import trigger
        def helper(x): ...
        def handler(context, event): ...
        @trigger("orders", group="billing", batch_size=10)
        def bill(context, event): ...
    """
    function = load(FunctionSource(str(_file(tmp_path, text))))
    assert (function.name, function.line) == ("bill", 5)
    config = merge_layers([function.declared], origin=function.place)
    assert (config.name, config.topic, config.group, config.batch_size) == ("bill", "orders", "billing", 10)


def test_one_of_several_functions_is_chosen_by_its_name(tmp_path: Path) -> None:
    path = _file(tmp_path, TWO)
    assert load(source_of(f"{path}:ship")).name == "shipper"
    assert load(source_of(f"{path}:bill")).name == "bill"
    assert _error(tmp_path, TWO) == ": bill and ship have @trigger: choose one, for example billing.py:bill"


def test_a_mistyped_function_gets_a_guess(tmp_path: Path) -> None:
    assert _error(tmp_path, TWO, "shop") == ": there is no function shop; did you mean ship?"


def test_a_file_without_a_handler_says_what_it_could_have(tmp_path: Path) -> None:
    assert _error(tmp_path, "x = 1") == ": no function has @trigger, and none is named handler"
    text = _error(tmp_path, "def bill(context, event): ...")
    assert text == ": no function has @trigger, and none is named handler: choose one, for example billing.py:bill"


def test_coroutines_are_recognised(tmp_path: Path) -> None:
    function = load(FunctionSource(str(_file(tmp_path, "async def handler(context, event): return event"))))
    assert function.is_async
    assert asyncio.run(function.call(None, 7)) == 7


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def handler(event): ...", ": line 1: handler must take (context, event): too many positional arguments"),
        (
            "def handler(a, b, c): ...",
            ": line 1: handler must take (context, event): missing a required argument: 'c'",
        ),
        (
            "def handler(context, event):\n yield 1",
            ": line 1: handler has a yield, so that a call does not run it: use context.emit",
        ),
        ("x = 1\nthis was wrong", ": line 2: invalid syntax"),
        ("x = 1\ny = z", ": line 2: NameError: name 'z' is not defined"),
        (
            "import sys\nsys.exit(3)",
            ": line 2: the file ends the process while it is loaded: put that under `if __name__ == '__main__'`",
        ),
        ("handler = len", ": no function has @trigger, and none is named handler"),
        (
            "def init_context(): ...\ndef handler(context, event): ...",
            ": init_context must take (context): too many positional arguments",
        ),
        ("def handler(context, event): ...\ninit_context = 5", ": init_context is not a function"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    assert _error(tmp_path, text) == sentence


def test_a_missing_library_says_for_which_python(tmp_path: Path) -> None:
    text = _error(tmp_path, "import no_such_library")
    assert text == f": line 1: No module named 'no_such_library': install it for {sys.executable}, or check the name"


def test_an_error_in_a_neighbour_names_the_line_that_imports_it(tmp_path: Path) -> None:
    _file(tmp_path, "1 / 0", "broken_neighbour.py")
    assert _error(tmp_path, "x = 1\nimport broken_neighbour") == ": line 2: ZeroDivisionError: division by zero"


def test_a_wrong_decorator_is_one_sentence(tmp_path: Path) -> None:
    path = _file(tmp_path, 'from tailrace.trigger import trigger\n@trigger("orders", replicas=0)\ndef f(c, e): ...')
    with pytest.raises(TriggerConfigError) as caught:
        load(FunctionSource(str(path)))
    assert str(caught.value) == f"{path}: line 2: @trigger: replicas: 0 is not a whole number from 1 to 1000"


def test_an_unknown_argument_of_the_decorator_names_its_line(tmp_path: Path) -> None:
    text = 'from tailrace.trigger import trigger\n@trigger("orders", replica=1)\ndef f(c, e): ...'
    assert ": line 2: TypeError: " in _error(tmp_path, text)


def test_a_file_imports_its_neighbours(tmp_path: Path) -> None:
    _file(tmp_path, "answer = 42", "price_neighbour.py")
    path = _file(tmp_path, "from price_neighbour import answer\ndef handler(context, event): return answer")
    assert load(FunctionSource(str(path))).call(None, None) == 42


def test_a_file_in_a_package_imports_its_neighbours_relatively(tmp_path: Path) -> None:
    package = tmp_path / "shop_package"
    package.mkdir()
    _file(package, "price = 3", "prices.py")
    path = _file(package, "from .prices import price\ndef handler(context, event): return price")
    function = load(FunctionSource(str(path), directory=str(tmp_path)))
    assert (function.call(None, None), function.call.__module__) == (3, "shop_package.billing")


def test_a_file_named_like_a_module_of_python_hides_nothing(tmp_path: Path) -> None:
    import json

    path = _file(tmp_path, "def handler(context, event): ...", "json.py")
    assert load(FunctionSource(str(path))).name == "json"
    assert sys.modules["json"] is json


def test_a_snapshot_runs_after_the_file_has_changed_and_tracebacks_show_it(tmp_path: Path) -> None:
    path = _file(tmp_path, "def handler(context, event):\n    raise KeyError('old text')\n")
    source = with_snapshot(FunctionSource(str(path)))
    _file(tmp_path, "# changed\n# since\n")
    function = load(source)
    with pytest.raises(KeyError) as caught:
        function.call(None, None)
    shown = "".join(traceback.format_exception(caught.value))
    assert f'File "{path}", line 2, in handler' in shown
    assert "raise KeyError('old text')" in shown


def test_a_file_that_was_loaded_before_can_be_loaded_again(tmp_path: Path) -> None:
    path = _file(tmp_path, "def handler(context, event): return 1")
    assert load(FunctionSource(str(path))).call(None, None) == 1
    _file(tmp_path, "def handler(context, event): return 2")
    assert load(FunctionSource(str(path))).call(None, None) == 2


def test_a_name_of_a_file_that_cannot_name_a_trigger_is_changed(tmp_path: Path) -> None:
    path = _file(tmp_path, "def handler(context, event): ...", "my orders (2).py")
    assert load(FunctionSource(str(path))).name == "my-orders-2"
