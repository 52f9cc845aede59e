"""Collects lines of generated Python, and the objects that they refer to."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Python source that is being written."""

    def __init__(self, **names: Any) -> None:
        self._lines: list[str] = []
        self._indent = 0
        self._names = names
        self._made: dict[str, str] = {}
        self._count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def function(self, header: str) -> Iterator[None]:
        """Writes a function at the top level, before everything that was written so far."""
        lines, indent = self._lines, self._indent
        self._lines, self._indent = [], 0
        with self.block(header):
            yield
        self._lines, self._indent = self._lines + lines, indent

    def fresh(self, stem: str) -> str:
        """Returns a variable name that is not in use."""
        self._count += 1
        return f"{stem}{self._count}"

    def name(self, stem: str, key: str, value: Any) -> str:
        """Returns the name by which the lines refer to `value`. The same key always has the same name."""
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self.fresh(stem)
            self._names[made] = value
        return made

    def text(self) -> str:
        return "\n".join(self._lines)

    def run(self, title: str) -> dict[str, Any]:
        """Executes the lines, and returns the names that they define. A traceback shows `title` as the file name."""
        exec(compile(self.text(), f"<{title}>", "exec"), self._names)
        return self._names
