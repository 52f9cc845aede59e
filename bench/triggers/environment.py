"""The environment in which the other libraries run, so that they do not choose the versions of our dependencies."""

import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
DEFAULT = Path(sys.prefix) / "trigger-peers"


def python_of(environment: Path) -> Path:
    """Returns the interpreter of the environment. Makes the environment first if it does not fit the requirements."""
    python, stamp = environment / "bin" / "python", environment / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != REQUIREMENTS.read_text():
        print(f"# Installing Quix Streams and FastStream into {environment}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*install, "--requirement", str(REQUIREMENTS)], check=True)
        stamp.write_text(REQUIREMENTS.read_text())
    return python
