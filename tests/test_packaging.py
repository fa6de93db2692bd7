"""The wheel holds the whole package: also the files that are not Python and are read at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "headrace"


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    present = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in packed if name.startswith("headrace/")} == present
    assert {
        "headrace/py.typed",
        "headrace/engine/log4j2.properties",
        "headrace/explain/HR-102.md",
        "headrace/kernel/java/headrace/kernel/Dedupe.java",
    } <= packed
    assert [name for name in packed if name.endswith(".dist-info/licenses/LICENSE")] != []
