"""Downloads locked artifacts with Apache Ivy: PySpark's, or without PySpark a download of the same.

Ivy already has what our own downloader would need. It checks the repository's checksums, retries
partial files, and knows the layout of Maven repositories and their mirrors. Its module file lists
every artifact intransitively, and it runs with `usepoms="false"`. So nothing is resolved, only
fetched (see docs/adr/0003-locked-jars-and-local-stack.md).
"""

import contextlib
import hashlib
import http.client
import importlib.util
import os
import re
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, NamedTuple
from xml.sax.saxutils import quoteattr

from tailrace_compose.local.errors import ArtifactUnavailable
from tailrace_compose.local.java import java_executable, network_properties

Progress = Callable[[str], None]
_REPORT_INTERVAL_S = 2.0
# Ivy is killed if nothing arrives for this long: a proxy that drops packets would hang it.
_STALL_LIMIT_S = 180.0
_DOWNLOADING = re.compile(r"^downloading \S+/([^/\s]+) \.\.\.", re.MULTILINE)


class Coordinate(NamedTuple):
    """The name of one artifact in a Maven repository."""

    organisation: str
    artifact: str
    version: str
    classifier: str | None
    extension: str

    @property
    def file_name(self) -> str:
        """The artifact's file name, as in the repository."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{classifier}.{self.extension}"

    def __str__(self) -> str:
        parts = [self.organisation, self.artifact, self.version]
        if self.classifier:
            parts.append(self.classifier)
        return ":".join(parts)


# What PySpark 4.1.1 carries, for an installation without PySpark.
_IVY = Coordinate("org.apache.ivy", "ivy", "2.5.3", None, "jar")
_IVY_SHA256 = "9502aa5aabf0b1484924a13ef4b5d24f121f7f91aab6768f11cc9d0906c0803b"
_CENTRAL = "https://repo1.maven.org/maven2"
_DOWNLOAD_LIMIT_S = 60.0


def retrieve(coordinates: Sequence[Coordinate], into: Path, work: Path, progress: Progress) -> None:
    """Download the artifacts into a folder, under their repository file names.

    Args:
        work: a folder for Ivy's own cache, in which partial downloads survive a failure.
        progress: receives a line at least every two seconds.

    Raises:
        ArtifactUnavailable: Ivy failed; the message names the artifacts and the settings to check.
    """
    into.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as name:
        folder = Path(name)
        (folder / "ivy.xml").write_text(module_file(coordinates))
        (folder / "settings.xml").write_text(settings_file(work / "cache", mirror()))
        (folder / "java.args").touch(mode=0o600)  # may hold a proxy's password
        (folder / "java.args").write_text(_java_arguments(folder, into, ivy_jar(work)))
        output = _run(folder, work / "cache", len(coordinates), progress)
    missing = [str(item) for item in coordinates if not (into / item.file_name).is_file()]
    if missing:
        raise ArtifactUnavailable(_explain(missing, output))


def mirror() -> str | None:
    """Return the address of the user's Maven mirror without trailing slash; None for Central."""
    return os.environ.get("TAILRACE_MAVEN_MIRROR", "").rstrip("/") or None


def module_file(coordinates: Sequence[Coordinate]) -> str:
    """Return Ivy's description of what to fetch."""
    lines = [
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
        '<info organisation="tailrace" module="jars"/>',
        '<configurations><conf name="default"/></configurations>',
        "<dependencies>",
    ]
    # Of two dependencies on one module, Ivy fetches the artifacts of the last.
    modules: dict[tuple[str, str, str], list[Coordinate]] = {}
    for item in coordinates:
        modules.setdefault((item.organisation, item.artifact, item.version), []).append(item)
    for (organisation, name, version), artifacts in modules.items():
        lines.append(
            f"<dependency org={quoteattr(organisation)} name={quoteattr(name)} "
            f'rev={quoteattr(version)} transitive="false" conf="default->default">'
        )
        for item in artifacts:
            classifier = f" m:classifier={quoteattr(item.classifier)}" if item.classifier else ""
            lines.append(
                f"<artifact name={quoteattr(name)} type={quoteattr(item.extension)} "
                f"ext={quoteattr(item.extension)}{classifier}/>"
            )
        lines.append("</dependency>")
    return "\n".join([*lines, "</dependencies>", "</ivy-module>", ""])


def settings_file(cache: Path, mirror_root: str | None) -> str:
    """Return Ivy's settings: one Maven repository, Central unless a mirror is given."""
    root = f" root={quoteattr(mirror_root + '/')}" if mirror_root else ""
    return (
        # Nothing is resolved, so two versions of one artifact are no conflict but two files.
        '<ivysettings><settings defaultResolver="central" defaultConflictManager="all"/>'
        f"<caches defaultCacheDir={quoteattr(str(cache))}/>"
        f'<resolvers><ibiblio name="central" m2compatible="true" usepoms="false"{root}/>'
        "</resolvers></ivysettings>\n"
    )


def _java_arguments(folder: Path, into: Path, ivy: Path) -> str:
    """Return the argument file of java: it keeps a proxy's password off the process list."""
    properties = network_properties(folder)
    pattern = into / "[artifact]-[revision](-[classifier]).[ext]"
    arguments = [f"-D{name}={value}" for name, value in properties.items()]
    arguments += ["-jar", str(ivy), "-settings", str(folder / "settings.xml")]
    arguments += ["-ivy", str(folder / "ivy.xml"), "-confs", "default", "-retrieve", str(pattern)]
    return "".join(f'"{_escaped(argument)}"\n' for argument in arguments)


def _escaped(argument: str) -> str:
    return argument.replace("\\", "\\\\").replace('"', '\\"')


def ivy_jar(work: Path) -> Path:
    """Return PySpark's Ivy; if PySpark is not installed, download Ivy into a folder.

    Raises:
        ArtifactUnavailable: it could not be downloaded, or has other bytes than PySpark's.
    """
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        for jar in Path(location, "jars").glob("ivy-*.jar"):
            return jar
    return download_ivy(work)


def download_ivy(work: Path) -> Path:
    """Download the locked Ivy into a folder; raises ArtifactUnavailable as `ivy_jar` does."""
    folders = (*_IVY.organisation.split("."), _IVY.artifact, _IVY.version, _IVY.file_name)
    url = "/".join((mirror() or _CENTRAL, *folders))
    try:
        with urllib.request.urlopen(url, timeout=_DOWNLOAD_LIMIT_S) as answer:  # noqa: S310
            content: bytes = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ArtifactUnavailable(_explain([str(_IVY)], f"error: {error}")) from error
    found = hashlib.sha256(content).hexdigest()
    if found != _IVY_SHA256:
        raise ArtifactUnavailable(
            f"{_IVY} from {mirror() or 'Maven Central'} has SHA-256 {found}, but {_IVY_SHA256} is"
            " expected. It was not stored. Fix: check which bytes the repository or a proxy serves."
        )
    path = work / _IVY.file_name
    path.write_bytes(content)
    return path


def _run(folder: Path, cache: Path, count: int, progress: Progress) -> str:
    """Run Ivy to its end, reporting what arrived; return its output."""
    command = [java_executable(), f"@{folder / 'java.args'}"]
    with subprocess.Popen(  # noqa: S603  # the command is ours
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    ) as process:
        if process.stdout is None:
            raise AssertionError("stdout was requested as a pipe")
        output = bytearray()
        reader = threading.Thread(target=_drain, args=(process.stdout, output), daemon=True)
        reader.start()
        try:
            _watch(process, reader, output, cache, count, progress)
        except BaseException:
            process.kill()
            raise
        finally:
            reader.join()
    return output.decode(errors="replace")


def _drain(stream: IO[bytes], output: bytearray) -> None:
    while chunk := stream.read1(65536):  # type: ignore[attr-defined]
        output.extend(chunk)


def _watch(
    process: subprocess.Popen[bytes],
    reader: threading.Thread,
    output: bytearray,
    cache: Path,
    count: int,
    progress: Progress,
) -> None:
    """Report every two seconds until Ivy closes its output; kill it if nothing moves."""
    idle_s = 0.0
    seen = (-1, -1)
    while True:
        reader.join(_REPORT_INTERVAL_S)
        if not reader.is_alive():
            return
        started = _DOWNLOADING.findall(output.decode(errors="replace"))
        size = _size_of(cache)
        state = (len(started), size)
        idle_s = idle_s + _REPORT_INTERVAL_S if state == seen else 0.0
        seen = state
        current = f", now {started[-1]}" if started else ""
        progress(f"{len(started)} of {count} artifacts, {size / 1e6:.0f} MB{current}")
        if idle_s >= _STALL_LIMIT_S:
            process.kill()


def _size_of(folder: Path) -> int:
    """Return the total bytes of the files below a folder; a file that vanishes counts nothing.

    Ivy renames each finished download, and may do so between any two looks at it.
    """
    size = 0
    for parent, _, names in os.walk(folder):  # passes over a folder that is gone
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += Path(parent, name).stat().st_size
    return size


def _explain(missing: list[str], output: str) -> str:
    """Return what is missing, what Ivy reported, and what to check."""
    said = [
        line.strip()
        for line in output.splitlines()
        if re.search(r"not found|FAILED|Exception|error|refused|timed out", line, re.IGNORECASE)
    ]
    detail = "\n".join(f"  {line}" for line in list(dict.fromkeys(said))[:8])
    return (
        f"Could not download {', '.join(missing)}.\n{detail}\n"
        f"Source: {mirror() or 'Maven Central'}. Fix: check the network, HTTPS_PROXY and "
        "SSL_CERT_FILE, or set TAILRACE_MAVEN_MIRROR to a Maven mirror you can reach. "
        "Finished downloads are stored; run again to continue."
    )
