import traceback

import pytest

from tailrace.protocol.codec.source import Source


def test_lines_become_functions_that_reach_what_was_named() -> None:
    source = Source(greeting="hello")
    with source.function("def greet(name):"):
        with source.block("if name:"):
            source.line("return greeting + ' ' + name")
        source.line("return greeting")
    greet = source.run("greet")["greet"]
    assert (greet("you"), greet("")) == ("hello you", "hello")


def test_a_function_may_be_written_in_the_middle_of_another() -> None:
    source = Source()
    with source.function("def outer():"), source.block("if True:"):
        with source.function("def inner():"):
            source.line("return 7")
        source.line("return inner()")
    assert source.run("nested")["outer"]() == 7


def test_the_same_key_is_named_once_and_names_differ() -> None:
    source = Source()
    assert source.name("pack", "pack i", 1) == source.name("pack", "pack i", 1)
    assert source.name("pack", "pack q", 2) not in (source.name("pack", "pack i", 1), source.fresh("pack"))


def test_a_traceback_shows_where() -> None:
    source = Source()
    with source.function("def fail():"):
        source.line("return 1 / 0")
    with pytest.raises(ZeroDivisionError) as raised:
        source.run("encode PingRequest 3")["fail"]()
    assert traceback.extract_tb(raised.value.__traceback__)[-1].filename == "<encode PingRequest 3>"
