"""Builds and runs small programs that use clients of other languages.

Each language's own tools build them, with exact versions of what they need from the language's registry. The results
stay in the user's cache directory. `python -m other_languages.programs` builds all programs whose tools are installed.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

HERE = Path(__file__).parent
BUILD_SECONDS_MAX = 600
RUN_SECONDS_MAX = 60


class Report(Struct, frozen=True):
    """What a program reports that it has seen."""

    values: list[str]
    committed: dict[str, int]
    state: str


class Language(Struct, frozen=True):
    name: str
    tools: tuple[str, ...]
    build: Callable[[Path], list[str]]
    """Returns the command that builds the programs in a copy of their sources."""
    command: Callable[[Path, str], list[str]]

    def is_installed(self) -> bool:
        return all(shutil.which(tool) for tool in self.tools)

    def run(self, program: str, *arguments: str) -> Report:
        command = [*self.command(self.built(), program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stdout}{done.stderr}")
        return Report(**json.loads(done.stdout))

    def built(self) -> Path:
        """Returns the directory of the built programs.

        Many processes may call it at the same time. The directory appears only when the build is complete.
        """
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"
        built = cache / f"clients-in-{self.name}-{self._fingerprint()}"
        if not built.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with (cache / f"clients-in-{self.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not built.exists():
                    self._build(built)
        return built

    def _build(self, built: Path) -> None:
        with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
            copy = Path(scratch, self.name)
            shutil.copytree(HERE / self.name, copy)
            command = self.build(copy)
            done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX)
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
            shutil.move(copy, built)

    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for source in sorted(path for path in (HERE / self.name).rglob("*") if path.is_file()):
            digest.update(source.relative_to(HERE).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
        return digest.hexdigest()[:16]


GO = Language(
    "go",
    ("go",),
    build=lambda folder: ["go", "build", "-o", f"{folder}/bin/", "./..."],
    command=lambda folder, program: [str(folder / "bin" / program)],
)
NODE = Language(
    "node",
    ("node", "npm"),
    build=lambda folder: ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"],
    command=lambda folder, program: ["node", str(folder / f"{program}.js")],
)


if __name__ == "__main__":
    for language in (GO, NODE):
        if language.is_installed():
            print(language.built())
        else:
            print(f"no {' and '.join(language.tools)} on this machine: the clients for {language.name} are skipped")
