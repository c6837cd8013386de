"""Class data sharing: an archive of the classes that Spark's JVM loads, for faster starts.

A sink loads some 24,000 classes up to its first MERGE (ADR 0052). ``class_recording`` runs the
first steps of a sink, after which its JVM writes the classes into an archive next to the jars.
Later JVMs map that file instead of reading, verifying and linking the classes. The JVM decides
whether an archive fits. With another Java or other jars it starts without it.
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
"""Silences warnings of archives of another Java, and of classes that cannot be archived."""


def archive_of(jars: Sequence[str | Path]) -> Path | None:
    """Return the path of the archive for these jars, existing or not; None without jars."""
    return Path(jars[0]).parent / _NAME if jars else None


def start_settings(jars: Sequence[str | Path], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which a new JVM maps the archive; empty if there is none.

    Args:
        jars: as passed to ``class_recording.record``.
        settings: the session's other settings. No archive fits a class path among them.
    """
    archive = archive_of(jars)
    options = settings.get(JAVA_OPTIONS, "")
    if archive is None or not archive.is_file() or settings.get(CLASS_PATH) or _MAPPED in options:
        return {}
    named = f'"{_MAPPED}{archive}" {QUIET} {options}'.rstrip()
    return {CLASS_PATH: class_path(jars), JAVA_OPTIONS: named}


def archive_in(java_options: str) -> str | None:
    """Return the archive named in the options of a running JVM, or None."""
    for option in shlex.split(java_options):
        if option.startswith(_MAPPED):
            return option.removeprefix(_MAPPED)
    return None


def class_path(jars: Sequence[str | Path]) -> str:
    """Build a class path that lists Spark's jars one by one, then the sink's.

    Spark itself uses ``jars/*``, whose order depends on the file system, while an archive fits one
    order only. Entries that follow do not matter. The classes of ``spark.jars`` have a loader that
    cannot use an archive, so the sink's jars are on the class path too.
    """
    of_spark = sorted(Path(_home_of_spark(), "jars").glob("*.jar"))
    # Spark's own function, so that the path is the same.
    of_spark.sort(key=lambda jar: not jar.name.startswith("slf4j-api-"))
    return os.pathsep.join(map(str, [*of_spark, *jars]))


def _home_of_spark() -> str:
    found: str = find_spark_home._find_spark_home()  # type: ignore[no-untyped-call]  # noqa: SLF001
    return found
