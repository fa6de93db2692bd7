"""The files of a checkpoint on a local disk are those that Spark would make, with the same permissions."""

from __future__ import annotations

from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headrace.kernel import bridge

SPARKS_OWN = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


class Manager:
    """A manager of checkpoint files in a directory."""

    def __init__(self, spark: SparkSession, name: str, place: Path, umask: str = "022") -> None:
        self.jvm: Any = spark._jvm
        settings = self.jvm.org.apache.hadoop.conf.Configuration()
        settings.set("fs.permissions.umask-mode", umask)
        settings.set("fs.file.impl.disable.cache", "true")
        self.place = place
        self.root = self.path(place.as_uri())
        made = self.jvm
        for part in name.split("."):
            made = getattr(made, part)
        self.java = made(self.root, settings)

    def path(self, *parts: Any) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(*parts)

    def write(self, name: str, text: str, *, overwrite: bool) -> None:
        out = self.java.createAtomic(self.path(self.root, name), overwrite)
        out.write(bytearray(text.encode()))
        out.close()

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Permissions and content of all that is there."""
        return {
            str(path.relative_to(self.place)): (_mode(path), path.read_bytes() if path.is_file() else b"")
            for path in self.place.rglob("*")
        }


def _mode(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", ["022", "077", "000", "137"])
def test_the_files_are_those_of_spark(spark: SparkSession, tmp_path: Path, umask: str) -> None:
    found = []
    for name in (bridge.CHECKPOINTS, SPARKS_OWN):
        manager = Manager(spark, name, tmp_path / name, umask)
        manager.java.mkdirs(manager.path(manager.root, "a/directory"))
        manager.write("a/file", "text", overwrite=False)
        assert manager.java.isLocal()
        found.append(manager.files())
    assert found[0] == found[1]
    assert found[0].keys() == {"a", "a/directory", "a/file", "a/.file.crc"}


def test_a_file_is_replaced_only_when_it_may_be(spark: SparkSession, tmp_path: Path) -> None:
    manager = Manager(spark, bridge.CHECKPOINTS, tmp_path)
    manager.write("file", "first", overwrite=False)
    manager.write("file", "second", overwrite=True)
    assert (tmp_path / "file").read_text() == "second"
    assert manager.java.open(manager.path(manager.root, "file")).read() == ord("s"), "its checksum is right"
    assert manager.files().keys() == {"file", ".file.crc"}
    with pytest.raises(Py4JJavaError, match="FileAlreadyExists"):
        manager.write("file", "third", overwrite=False)
    assert (tmp_path / "file").read_text() == "second"


def test_a_directory_keeps_its_group(spark: SparkSession, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2755)
    manager = Manager(spark, bridge.CHECKPOINTS, shared)
    manager.java.mkdirs(manager.path(manager.root, "a/b"))
    assert _mode(shared / "a" / "b") == 0o2755
