"""Class data sharing: what Spark's JVM has loaded, kept for those that start after it.

A sink loads some 24,000 classes until its first MERGE, a third of what its JVM does meanwhile
(ADR 0052). ``class_recording`` has one Spark do what every sink does first, and its JVM write the
classes into an archive beside the jars. Later JVMs map that file instead of reading, checking and
linking the classes again. The JVM itself decides whether an archive is its own: with another Java,
or other jars, it starts as if there were none.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark import find_spark_home

CLASS_PATH: Final = "spark.driver.extraClassPath"
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_NAME: Final = "classes.jsa"
_MAPPED: Final = "-XX:SharedArchiveFile="
QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
"""An archive of another Java is no trouble, and neither is a class that cannot be kept in one."""


def archive_of(jars: Sequence[str | Path]) -> Path | None:
    """Where the archive of a Spark with these jars is, or would be; None without jars."""
    return Path(jars[0]).parent / _NAME if jars else None


def start_settings(jars: Sequence[str | Path], settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by which a JVM that is about to start maps the archive; none where there is none.

    Args:
        jars: ours, as at ``class_recording.record``.
        settings: those that the session has besides. No archive fits a class path of their own.
    """
    archive = archive_of(jars)
    options = settings.get(JAVA_OPTIONS, "")
    if archive is None or not archive.is_file() or settings.get(CLASS_PATH) or _MAPPED in options:
        return {}
    named = f'"{_MAPPED}{archive}" {QUIET} {options}'.rstrip()
    return {CLASS_PATH: class_path(jars), JAVA_OPTIONS: named}


def archive_in(java_options: str) -> str | None:
    """The archive that a JVM which runs was told of by its options, or None."""
    for option in shlex.split(java_options):
        if option.startswith(_MAPPED):
            return option.removeprefix(_MAPPED)
    return None


def class_path(jars: Sequence[str | Path]) -> str:
    """A class path that says Spark's jars one by one, and ours.

    Spark says ``jars/*``, in whatever order the folder has them on this file system, and an archive
    fits one order. What follows on the class path, and is never reached, does not matter to it. And
    classes of ``spark.jars`` have a loader of their own, which cannot share; ours stay there for
    executors.
    """
    of_spark = sorted(Path(_home_of_spark(), "jars").glob("*.jar"))
    # As Spark itself has it: others have parts of this one in them.
    of_spark.sort(key=lambda jar: not jar.name.startswith("slf4j-api-"))
    return os.pathsep.join(map(str, [*of_spark, *jars]))


def _home_of_spark() -> str:
    found: str = find_spark_home._find_spark_home()  # type: ignore[no-untyped-call]  # noqa: SLF001
    return found
