"""Files of a checkpoint that are not what was written, by the checksums beside them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.engine import damage
from headrace.errors import Location


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def written(file: Path, content: bytes, size: int = 512) -> Path:
    """A file with its checksums, as Spark writes it."""
    file.write_bytes(content)
    sums = [zlib.crc32(content[at : at + size]) for at in range(0, len(content), size)]
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + struct.pack(f">{1 + len(sums)}I", size, *sums))
    return file


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 5000])
def test_a_file_that_is_what_was_written(tmp_path: Path, size: int):
    assert damage.changed(written(tmp_path / "7", bytes(range(256)) * 20)) is None
    assert damage.changed(written(tmp_path / "8", b"x" * size)) is None


@pytest.mark.parametrize(
    ("hurt", "why"),
    [
        (flip, "bytes 512 to 1024 are not what was written"),
        (lambda file: file.write_bytes(file.read_bytes()[:1024]), "it ends after 1024 bytes"),
        (lambda file: file.write_bytes(file.read_bytes()[:700]), "bytes 512 to 700 are not"),
        (lambda file: file.write_bytes(file.read_bytes() + b"x"), "bytes 1024 to 1501 are not"),
        (lambda file: flip(file.with_name(f".{file.name}.crc")), "not what was written"),
        (lambda file: file.with_name(f".{file.name}.crc").write_bytes(b"crc"), "cannot be read"),
    ],
    ids=["flipped", "cut at a piece", "cut", "longer", "its checksums", "its checksums cut"],
)
def test_a_file_that_is_not(tmp_path: Path, hurt: Callable[[Path], object], why: str):
    file = written(tmp_path / "7", b"y" * 1500)
    hurt(file)
    assert why in (damage.changed(file) or "")


def test_a_file_without_checksums_is_taken_as_it_is(tmp_path: Path):
    file = tmp_path / "headrace.json"
    file.write_text("{}")
    assert damage.changed(file) is None


CHECKSUM = (
    "org.apache.hadoop.fs.ChecksumException: Checksum error: s3a://data/shop/totals/state/0/1/31_ab.changelog at 0"
)
UNNAMED = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state."


def test_what_spark_cannot_read_is_named():
    error = damage.behind(CHECKSUM, "s3a://data/shop/totals", "totals", Location("/home/shop/app.py", 5))
    assert error is not None
    assert error.code == "HR-345"
    assert "/data/shop/totals/state/0/1/31_ab.changelog" in str(error.found)
    assert "`headrace reset app.py totals`" in error.fix


def test_what_spark_does_not_name_is_found(tmp_path: Path):
    for name in ("commits", "state/0/1"):
        (tmp_path / name).mkdir(parents=True)
    written(tmp_path / "commits" / "30", b"v1")
    old, needed = (written(tmp_path / "state/0/1" / f"{n}_ab.changelog", b"x" * 100) for n in (32, 31))
    flip(old)
    where = Location("app.py", 5)
    assert damage.behind(UNNAMED, str(tmp_path), "totals", where) is None
    flip(needed)
    assert damage.behind("[DIVIDE_BY_ZERO] Division by zero.", str(tmp_path), "totals", where) is None
    error = damage.behind(UNNAMED, str(tmp_path), "totals", where)
    assert error is not None
    assert str(needed) in str(error.found)
