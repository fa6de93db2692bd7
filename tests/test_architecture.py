"""The architecture page shows the folders that there are, who may import whom, and files and classes that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.test_house import BOTTOM, KERNEL, MAY_IMPORT, ROOMS, SOURCE

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")


def listed() -> set[str]:
    """The folders in the picture, as paths below src/headrace; a folder stands deeper than the one around it."""
    (picture,) = re.findall(r"(?ms)^```text\n(src/headrace/\n.*?)^```$", TEXT)
    found: set[str] = set()
    around: list[tuple[int, str]] = []
    for line in picture.splitlines()[1:]:
        blanks = len(line) - len(line.lstrip())
        name = line.split()[0]
        around = [(depth, folder) for depth, folder in around if depth < blanks]
        if name.endswith("/"):
            around.append((blanks, name))
            found.add("".join(folder for _, folder in around).rstrip("/"))
    return found


def folders() -> set[str]:
    """The folders that hold files, which `java/headrace` does not."""
    holding = {file.parent for file in SOURCE.rglob("*") if file.is_file()} - {SOURCE}
    return {one.relative_to(SOURCE).as_posix() for one in holding if one.name != "__pycache__"}


def test_the_picture_has_every_folder():
    missing = folders() - listed()
    assert missing == set(), "say in the picture of docs/explanation/architecture.md what these folders hold"


def test_every_folder_of_the_picture_is_there():
    gone = {one for one in listed() if not (SOURCE / one).is_dir()}
    assert gone == set(), "take these folders out of the picture of docs/explanation/architecture.md"


def test_the_picture_has_every_file_beside_the_folders():
    files = {file.name for file in SOURCE.glob("*.py")} - {"__init__.py"}
    assert files - set(re.findall(r"\b\w+\.py\b", TEXT)) == set()


def table(heading: str) -> dict[str, set[str]]:
    """What the table below a heading says: who is named in the first cell may import who is named in the second."""
    rows = re.findall(r"(?m)^\| (`.+?) \| (.+?) \|$", TEXT.split(f"| {heading} | may import |")[1].split("\n\n")[0])
    said: dict[str, set[str]] = {}
    for owners, imported in rows:
        names = set(re.findall(r"`(\w+)`", imported))
        for owner in re.findall(r"`(\w+)`", owners):
            said[owner] = names | (said["engine"] if imported.startswith("the same") else set())
    return said


def test_the_page_says_who_may_import_whom():
    units = {one.name.removesuffix(".py") for one in SOURCE.iterdir()}
    real = {
        owner: {one.split(".")[0] for one in allowed} & units - BOTTOM - {owner}
        for owner, allowed in MAY_IMPORT.items()
        if owner in units - BOTTOM - {"__init__"}
    }
    assert {owner: names - {owner} for owner, names in table("folder").items()} == real


def test_the_page_says_which_rooms_may_import_which():
    assert table("room") == ROOMS


def test_every_class_on_the_page_is_in_the_kernel():
    classes = {file.stem for file in KERNEL.rglob("*.java")}
    named = set(re.findall(r"`([A-Z][a-z]\w+)`", TEXT))
    assert named - classes == set()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:[a-z_]+/)+[\w.]*\w\.(?:py|txt)|[a-z_]+/)`", TEXT))))
def test_every_path_on_the_page_is_there(path: str):
    places = (SOURCE, SOURCE.parent.parent, KERNEL, *KERNEL.iterdir())
    assert any((place / path).exists() for place in places)
