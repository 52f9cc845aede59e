"""The wheel contains only the package `tailrace`, and none of our folders is a top-level name."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("protocol", "runtime", "storage", "broker", "cli")


def test_the_wheel_made_from_the_sdist_installs_as_tailrace_alone(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", tmp_path / "dist", ROOT],
        check=True,
        capture_output=True,
        timeout=300,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"tailrace", wheel.name.rsplit("-py3", 1)[0] + ".dist-info"}
    for package in PACKAGES:
        assert f"tailrace/{package}/__init__.py" in names

    # The dependencies come from this environment, but the package itself must come from the wheel.
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel]
    subprocess.run(pip, check=True, timeout=300)
    script = f"""
import importlib.util, sys, tailrace, tailrace.cli.main
assert tailrace.__file__.startswith({str(site)!r}), tailrace.__file__
for name in {PACKAGES!r}:
    assert importlib.util.find_spec(name) is None, name
tailrace.cli.main.main(["--version"])
"""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("tailrace ")
