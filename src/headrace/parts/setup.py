"""Everything that must be downloaded or compiled before the first run, done once.

`install` is what `headrace setup` and the Makefile call; a run makes for itself what it needs of this. When all is
there it takes milliseconds and says nothing. A crash in the middle loses only the set that was being made.
"""

from __future__ import annotations

import sys

from headrace.errors import PartError
from headrace.parts import java, kafka, kernel_jar
from headrace.parts.jars import BROKER, CONNECTOR, Report, directory


def install(report: Report) -> None:
    """Check Java, fetch the connector and the broker, compile the kernel, rehearse the broker; the Eclipse compiler
    only if it is needed."""
    java.find()
    for jars in (CONNECTOR, BROKER):
        directory(jars, report)
    kernel_jar.kernel_jar(report)
    kafka.rehearse(report)


def main() -> None:
    """`python -m headrace.parts.setup`: progress and errors on standard error."""
    try:
        install(lambda line: print(line, file=sys.stderr, flush=True))
    except PartError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
