import inspect
import subprocess
import sys

import pytest

from tailrace.trigger import Retry, TriggerConfigError, trigger
from tailrace.trigger.config.trigger_config import RetryMode
from tailrace.trigger.config.trigger_settings import RETRY_FIELDS, SETTINGS
from tailrace.trigger.functions.trigger_decorator import declared


def test_a_decorated_function_can_still_be_called() -> None:
    @trigger("orders")
    def double(context: object, event: int) -> int:
        return 2 * event

    assert double(None, 4) == 8


def test_the_decorator_records_what_was_given_and_where() -> None:
    @trigger("orders", group="billing", replicas=3, session_timeout="20s")
    def bill(context: object, event: object) -> None: ...

    layer = declared(bill)
    assert layer is not None
    assert {name: each.value for name, each in layer.items()} == {
        "topic": "orders",
        "group": "billing",
        "replicas": 3,
        "session_timeout": 20.0,
    }
    assert layer["replicas"].place == f"{__file__}: line {bill.__code__.co_firstlineno}: @trigger: replicas"


def test_the_example_of_the_documentation_is_understood() -> None:
    @trigger(
        "orders",
        group="billing",
        replicas=3,
        max_workers=4,
        seek_to="earliest",
        retry=Retry(attempts=7, backoff=(0.2, 30), mode=RetryMode.ASIDE),
        dead_letters="orders.dead",
    )
    def bill(context: object, event: object) -> None: ...

    layer = declared(bill)
    assert layer is not None
    assert layer["retry_attempts"].value == 7
    assert layer["retry_backoff"].value == (0.2, 30.0)
    assert layer["retry_mode"].value is RetryMode.ASIDE
    assert "retry_max_age" not in layer


def test_retry_may_be_the_number_of_attempts() -> None:
    @trigger("orders", retry=3)
    def bill(context: object, event: object) -> None: ...

    assert (declared(bill) or {})["retry_attempts"].value == 3


def test_a_wrong_value_is_refused_where_it_is_written() -> None:
    with pytest.raises(TriggerConfigError, match=r"@trigger: retry: attempts: 0 is not a whole number"):

        @trigger("orders", retry=Retry(attempts=0))
        def bill(context: object, event: object) -> None: ...


def test_the_decorator_takes_every_setting() -> None:
    parameters = set(inspect.signature(trigger).parameters)
    assert parameters - {"retry"} | set(RETRY_FIELDS) == set(SETTINGS)


def test_a_decorator_without_arguments_says_how_to_write_it() -> None:
    with pytest.raises(TriggerConfigError, match=r'write @trigger\("TOPIC"\)'):

        @trigger  # type: ignore[arg-type]
        def bill(context: object, event: object) -> None: ...


def test_only_functions_are_decorated() -> None:
    with pytest.raises(TriggerConfigError, match="belongs on a function"):

        @trigger("orders")
        class Bill: ...


def test_a_function_without_the_decorator_declares_nothing() -> None:
    assert declared(len) is None


def test_the_names_for_users_cost_neither_trio_nor_yaml() -> None:
    code = "import sys; from tailrace.trigger import *; print({'trio', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_name_that_does_not_exist_is_no_attribute() -> None:
    import tailrace.trigger

    with pytest.raises(AttributeError, match="no attribute 'triger'"):
        tailrace.trigger.triger  # type: ignore[attr-defined]  # noqa: B018
