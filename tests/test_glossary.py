"""The glossary: each word stands there once, and is a word of the pages or, of the code, a word of the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GLOSSARY = DOCS / "reference" / "glossary.md"
CODE = "In the code"
ENDINGS = r"(?:s|es|d|ed|ing|ion|ions|ted)?"


def words() -> list[tuple[str, str]]:
    """Each word with the heading that it stands under."""
    parts = re.split(r"(?m)^## (.+)$", GLOSSARY.read_text(encoding="utf-8"))
    return [
        (word, heading)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
        for word in re.findall(r"(?m)^\| (\w[\w ]*) \| (?!meaning)", text)
    ]


@cache
def text(of: str) -> str:
    """All other pages, or all of the code, with the parts of a Java name as words of their own."""
    if of == CODE:
        files = [file for kind in ("py", "java") for file in sorted((ROOT / "src").rglob(f"*.{kind}"))]
    else:
        files = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    read = "\n".join(file.read_text(encoding="utf-8") for file in files if file != GLOSSARY)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", read).replace("_", " ").lower()


def test_no_word_stands_there_twice():
    all_of_them = [word for word, _ in words()]
    assert len(all_of_them) > 50
    assert sorted(set(all_of_them)) == sorted(all_of_them)


@pytest.mark.parametrize(("word", "heading"), words(), ids=lambda value: value)
def test_a_word_is_used(word: str, heading: str):
    spelling = r"\s+".join(map(re.escape, word.split()))
    assert re.search(rf"\b{spelling}{ENDINGS}\b", text(CODE if heading == CODE else "pages"))
