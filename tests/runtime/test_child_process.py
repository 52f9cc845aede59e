import os
import signal
import subprocess
import sys
import textwrap

import pytest
import trio

from tailrace.runtime.child_process import environment_without, start_child, status_text

ENVIRONMENT = environment_without("TAILRACE_")


def _python(program: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(program)]


async def test_a_child_speaks_by_lines_and_ends_with_a_status() -> None:
    child = await start_child(_python("print('one'); print('two'); print('torn', end=''); raise SystemExit(3)"), {})
    assert [await child.read_line() for _ in range(3)] == ["one", "two", None]
    assert await child.wait() == 3
    await child.close()


async def test_a_child_is_asked_to_stop_and_killed_if_it_does_not() -> None:
    program = """
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        print("ready", flush=True)
        while True:
            signal.sigwait({signal.SIGTERM})
            print("asked", flush=True)
    """
    child = await start_child(_python(program), ENVIRONMENT)
    with trio.fail_after(20):
        assert await child.read_line() == "ready"
        child.ask_to_stop()
        assert await child.read_line() == "asked"
        child.kill()
        assert await child.wait() == -signal.SIGKILL
    await child.close()


async def test_a_missing_program_is_an_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        await start_child(["/nowhere/program"], {})


def test_a_child_sees_its_input_end_when_its_parent_is_killed() -> None:
    """Three processes take part: this one, a parent that it kills, and the parent's child, whose standard error ends
    last."""
    child = """
        import trio
        from tailrace.runtime.process import end_of_input
        print("ready", flush=True)
        trio.run(end_of_input)
    """
    parent = f"""
        import sys, trio
        from tailrace.runtime.child_process import start_child
        async def main():
            child = await start_child([sys.executable, "-c", {textwrap.dedent(child)!r}], {ENVIRONMENT!r})
            while (line := await child.read_line()) is not None:
                print(line, flush=True)
        trio.run(main)
    """
    process = subprocess.Popen(_python(parent), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        # The child shares this pipe: its end is the child's end.
        assert process.stderr.read() == b""


def test_statuses_in_words() -> None:
    assert status_text(0) == "status 0"
    assert status_text(-signal.SIGKILL) == "SIGKILL"
    assert status_text(-200) == "signal 200"


def test_an_environment_without_some_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_DATA", "x")
    monkeypatch.setenv("OTHER", "y")
    environment = environment_without("TAILRACE_")
    assert "TAILRACE_DATA" not in environment
    assert environment["OTHER"] == os.environ["OTHER"]
