"""The locked jars: downloaded once, checked by SHA-256, shared by every process on the machine."""

import hashlib
import re
import shutil
import sys
import tarfile
import time
from importlib import metadata, resources
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from tailrace_compose.local import ivy
from tailrace_compose.local.cache import cache_dir, exclusive
from tailrace_compose.local.errors import ArtifactUnavailable, LockInvalid

Group = Literal[
    "spark",
    "spark-4.0",
    "spark-4.2",
    "s3",
    "s3-4.2",
    "iceberg",
    "kafka",
    "registry",
    "connect",
    "debezium",
    "converter",
    "jdbc",
    "jdbc_sink",
    "flink",
    "iceberg_rest",
]
GROUPS: tuple[Group, ...] = get_args(Group)
# Needed by everyone; a lake's address or some tests need the others, and fetch them.
_SET_UP: tuple[Group, ...] = ("spark", "kafka", "registry")
_BY_SPARK: dict[str, Group] = {"4.0": "spark-4.0", "4.1": "spark", "4.2": "spark-4.2"}
_S3_BY_SPARK: dict[Group, Group] = {"spark": "s3", "spark-4.2": "s3-4.2"}
_ICEBERG_BY_SPARK: dict[Group, Group] = {"spark": "iceberg"}
_ARCHIVES: tuple[Group, ...] = ("registry", "jdbc_sink")
_S3 = ("s3://", "s3a://")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class LockedArtifact(NamedTuple):
    """One line of `jars.lock`."""

    group: str
    coordinate: ivy.Coordinate
    sha256: str


def locked(group: Group) -> list[LockedArtifact]:
    """Return the artifacts of one group, in the order of the lock."""
    return [item for item in parse_lock(_lock_path().read_text()) if item.group == group]


def version_of(group: Group, artifact: str) -> str:
    """Return the locked version of an artifact, as in `version_of("kafka", "kafka_2.13")`.

    Raises:
        LockInvalid: the group has no such artifact.
    """
    for item in locked(group):
        if item.coordinate.artifact == artifact:
            return item.coordinate.version
    raise LockInvalid(f"jars.lock has no artifact {artifact} in [{group}].")


def ensure(group: Group, progress: ivy.Progress | None = None) -> list[Path]:
    """Return the files of a group, after downloading those that are missing.

    Every file's SHA-256 is checked each time: a cache is as open to accidents as a network.

    Args:
        group: as in the brackets of `jars.lock`.
        progress: receives lines while something is downloaded; standard error if None.

    Raises:
        ArtifactUnavailable: an artifact is not available, or its bytes are not the locked ones.
    """
    artifacts = locked(group)
    folder = cache_dir() / "jars" / group
    if not _unusable(artifacts, folder):
        return _paths(artifacts, folder)
    report = progress or _to_stderr
    with exclusive("jars"):
        # The previous holder of the lock may have downloaded the same files.
        wanted = _unusable(artifacts, folder)
        if wanted:
            _download(group, wanted, folder, report)
    return _paths(artifacts, folder)


def spark_group() -> Group:
    """Return the group of the installed PySpark; without PySpark that of the locked one.

    Raises:
        ArtifactUnavailable: no jars are locked for its release.
    """
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return "spark"
    group = _BY_SPARK.get(version.rpartition(".")[0])
    if group is None:
        raise ArtifactUnavailable(
            f"No jars are locked for PySpark {version}. Fix: install a release of PySpark"
            f" {', '.join(_BY_SPARK)}, or run the sink by spark-submit with jars of your own."
        )
    return group


def spark_jars(lake: str = "", table_format: str = "delta") -> list[Path]:
    """Return the jars for Spark's `spark.jars`, of the release of the installed PySpark.

    Args:
        lake: address of the lake, whose store may need further jars.
        table_format: of its tables; that of `iceberg` needs further jars, too.

    Raises:
        ArtifactUnavailable: no jars are locked for its release, or none for the store.
    """
    group = spark_group()
    of_format = iceberg_jars() if table_format == "iceberg" else []
    if not lake.startswith(_S3):
        return ensure(group) + of_format
    of_store = _S3_BY_SPARK.get(group)
    if of_store is None:
        raise ArtifactUnavailable(
            f"PySpark {metadata.version('pyspark')} cannot write the lake {lake}: its Hadoop cannot"
            " create objects conditionally, which 3.4.2 was the first to do. Fix: install PySpark"
            " 4.1 or 4.2."
        )
    return ensure(group) + ensure(of_store) + of_format


def iceberg_jars() -> list[Path]:
    """Return the further jars with which Spark writes Iceberg tables.

    Raises:
        ArtifactUnavailable: none are locked for the installed PySpark.
    """
    group = _ICEBERG_BY_SPARK.get(spark_group())
    if group is None:
        raise ArtifactUnavailable(
            f"No jars of Iceberg are locked for PySpark {metadata.version('pyspark')}. Fix: install"
            " PySpark 4.1, or let the lake be Delta."
        )
    return ensure(group)


def registry_home(progress: ivy.Progress | None = None) -> Path:
    """Return the folder of the unpacked schema registry, with `lib` and its runner jar in it."""
    return _unpacked("registry", progress)


def jdbc_sink_jars(progress: ivy.Progress | None = None) -> list[Path]:
    """Return the jars of Debezium's JDBC sink connector, as in its archive."""
    return sorted(_unpacked("jdbc_sink", progress).glob("*/*.jar"))


def _unpacked(group: Group, progress: ivy.Progress | None) -> Path:
    """Return the folder of the only archive of a group."""
    (artifact,) = locked(group)
    # The hash in the name makes a folder unpacked from another archive a different one.
    home = cache_dir() / group / f"{artifact.coordinate.version}-{artifact.sha256[:12]}"
    if home.is_dir():
        return home
    (archive,) = ensure(group, progress)
    with exclusive("jars"):
        if not home.is_dir():
            partial = home.with_name(f"{home.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            with tarfile.open(archive) as tar:
                # Python before 3.11.4 has no filters; there the hash alone vouches for the archive.
                tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
                tar.extractall(partial)  # noqa: S202  # its SHA-256 is the locked one
            partial.rename(home)
    return home


def parse_lock(text: str) -> list[LockedArtifact]:
    """Read the text of a lock.

    Raises:
        LockInvalid: a line is not understood; the message has its number.
    """
    artifacts = []
    group = ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1]
            continue
        fields = line.split()
        if len(fields) not in (4, 6) or not group or not _SHA256.fullmatch(fields[-1]):
            raise LockInvalid(
                f"jars.lock line {number}: expected `organisation artifact version "
                f"[classifier extension] sha256` below a [group], found {line!r}."
            )
        organisation, artifact, version, *rest, sha256 = fields
        classifier, extension = rest or (None, "jar")
        coordinate = ivy.Coordinate(organisation, artifact, version, classifier, extension or "jar")
        artifacts.append(LockedArtifact(group, coordinate, sha256))
    return artifacts


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _lock_path() -> Path:
    return Path(str(resources.files("tailrace_compose.local") / "jars.lock"))


def _paths(artifacts: list[LockedArtifact], folder: Path) -> list[Path]:
    return [folder / item.coordinate.file_name for item in artifacts]


def _unusable(artifacts: list[LockedArtifact], folder: Path) -> list[LockedArtifact]:
    """Return the artifacts that are missing or differ from the lock."""
    return [item for item in artifacts if not _is_locked_file(item, folder)]


def _is_locked_file(item: LockedArtifact, folder: Path) -> bool:
    path = folder / item.coordinate.file_name
    return path.is_file() and sha256_of(path) == item.sha256


def _download(
    group: Group, wanted: list[LockedArtifact], folder: Path, report: ivy.Progress
) -> None:
    """Download into a separate folder, check, and only then move the files to their place."""
    started = time.monotonic()
    work = cache_dir() / "ivy"
    arrived = work / "arrived"
    shutil.rmtree(arrived, ignore_errors=True)
    report(f"{group} jars: downloading {len(wanted)} from {ivy.mirror() or 'Maven Central'}")
    ivy.retrieve(
        [item.coordinate for item in wanted],
        arrived,
        work,
        lambda line: report(f"{group} jars: {line}"),
    )
    folder.mkdir(parents=True, exist_ok=True)
    size = 0
    for item in wanted:
        path = arrived / item.coordinate.file_name
        found = sha256_of(path)
        if found != item.sha256:
            shutil.rmtree(work)
            raise ArtifactUnavailable(
                f"{item.coordinate} from {ivy.mirror() or 'Maven Central'} has SHA-256 {found}, "
                f"but jars.lock says {item.sha256}. The file was deleted. Fix: run again; if the "
                "error persists, the repository or a proxy serves other bytes than were tested."
            )
        size += path.stat().st_size
        path.replace(folder / path.name)
    # The files are in place, so Ivy's copies would only double the disk space.
    shutil.rmtree(work)
    seconds = time.monotonic() - started
    report(f"{group} jars: {len(wanted)} files, {size / 1e6:.0f} MB, in {seconds:.0f} s")


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Download groups (`fetch spark`), without a name those of `make setup`; return the status."""
    verb, *names = arguments or [""]
    groups = [group for group in GROUPS if group in (names or _SET_UP)]
    if verb != "fetch" or not set(names) <= set(GROUPS):
        sys.stderr.write(
            f"usage: python -m tailrace_compose.local.jars fetch [{'|'.join(GROUPS)}]...\n"
        )
        return 2
    try:
        for group in groups:
            if group in _ARCHIVES:
                _unpacked(group, None)
            else:
                ensure(group)
    except (ArtifactUnavailable, LockInvalid) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
