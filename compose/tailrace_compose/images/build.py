"""``make images``: builds every image of the pipeline on this machine.

Our images (publisher, emulator, sink) come from Dockerfiles that ``docker compose build`` also
uses. The stand-ins for Kafka and the schema registry are for machines that can pull nothing. They
contain the same versions, from the locked jars that ``make setup`` has fetched.

The settings by which this machine reaches the package registries go into the build, not into the
images. Proxies are BuildKit's own arguments, certificate authorities and pip's settings are
secrets.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from tailrace_compose.images.base import base_image
from tailrace_compose.images.engine import Engine, find_engine
from tailrace_compose.images.errors import BuildFailed, ImageBuildError
from tailrace_compose.local import jars
from tailrace_emulator.testing.errors import LocalStackError

CLONE: Final = Path(__file__).resolve().parents[3]
FOLDER: Final = CLONE / "compose" / "images"
_STAGED: Final = (
    "tailrace_compose/images/health.py",
    "tailrace_compose/images/kafka_entry.py",
    "images/broker_api_versions.sh",
    "tailrace_compose/local/kafka-log4j2.xml",
)
_CA_VARIABLES: Final = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
_PROXY_VARIABLES: Final = ("http_proxy", "https_proxy", "no_proxy")
_PIP_OPTIONS: Final = ("index-url", "extra-index-url", "trusted-host")
_PIP_FILES: Final = ("~/.config/pip/pip.conf", "~/.pip/pip.conf", "/etc/pip.conf")


@dataclass(frozen=True, slots=True)
class Image:
    """One image.

    Attributes:
        tag: its name in the engine.
        dockerfile: the file's name in compose/images.
        target: the stage; None for the last one.
        jars: group of locked jars that the build folder must contain. Only stand-ins have one.
    """

    tag: str
    dockerfile: str
    target: str | None = None
    jars: jars.Group | None = None


SOURCES_LABEL: Final = "tailrace.sources"
"""The label with the digest of the sources from which an image was built."""
_SOURCES: Final = (
    "schemas",
    "service",
    "emulator",
    "publisher",
    "spark_sink",
    "compose",
    "tailrace",
)
_CODE: Final = (".py", ".avsc", ".lock", ".Dockerfile", ".sh")

IMAGES: Final[Mapping[str, Image]] = {
    "publisher": Image("tailrace-publisher:local", "publisher.Dockerfile", "publisher"),
    "emulator": Image("tailrace-emulator:local", "publisher.Dockerfile", "emulator"),
    "kafka": Image("tailrace-kafka:local", "kafka.Dockerfile", jars="kafka"),
    "registry": Image("tailrace-registry:local", "registry.Dockerfile", jars="registry"),
    "sink": Image("tailrace-sink:local", "sink.Dockerfile"),
}


def build(names: Sequence[str], base: str | None = None) -> None:
    """Build the images with some keys of IMAGES, one after the other.

    Args:
        base: the base image; None for the official one or one built here.

    Raises:
        ImageBuildError: no engine, no base, or a step failed; names the fix.
        LocalStackError: the locked jars are not available.
    """
    engine = find_engine()
    base = base_image(engine, base, _say)
    _say(f"base image {base}")
    with _network_settings(os.environ, engine) as arguments:
        for name in names:
            _build(engine, IMAGES[name], ["--build-arg", f"BASE_IMAGE={base}", *arguments])


def _build(engine: Engine, image: Image, arguments: Sequence[str]) -> None:
    started = time.monotonic()
    before = engine.image_id(image.tag)
    version = _version_of(image)
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(_staged(image.jars)) if image.jars else CLONE
        command = [engine.client, "build", "--progress=plain", "--tag", image.tag]
        command += ["--file", str(FOLDER / image.dockerfile), "--build-arg", f"VERSION={version}"]
        command += ["--target", image.target] if image.target else []
        command += ["--label", f"{SOURCES_LABEL}={sources_digest()}"]
        lines = _follow([*command, *arguments, str(context)], image.tag)
    seconds = time.monotonic() - started
    if lines is not None:
        tail = "\n".join(lines[-25:])
        raise BuildFailed(f"{image.tag} could not be built:\n{tail}")
    if before is not None and before != engine.image_id(image.tag):
        engine.forget(before)
    _say(f"{image.tag} built in {seconds:.0f} s")


def sources_digest() -> str:
    """Return a digest of all code in our images, and of the lock."""
    digest = hashlib.sha256()
    files = [path for name in _SOURCES for path in (CLONE / name).rglob("*") if path.is_file()]
    wanted = [
        path
        for path in (*files, CLONE / "requirements.lock")
        if path.suffix in _CODE and "secrets" not in path.parts
    ]
    for path in sorted(wanted):
        digest.update(f"{path.relative_to(CLONE)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _version_of(image: Image) -> str:
    if image.jars == "kafka":
        return jars.version_of("kafka", "kafka_2.13")
    if image.jars == "registry":
        return jars.version_of("registry", "apicurio-registry-app")
    return metadata.version("tailrace")


def _follow(command: Sequence[str], tag: str) -> list[str] | None:
    """Run a build, printing its steps; return its output if it failed."""
    lines: list[str] = []
    environ = dict(os.environ, DOCKER_BUILDKIT="1")
    with subprocess.Popen(  # noqa: S603 - the engine's own client
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environ,
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                if " [" in line and "] " in line:
                    _say(f"{tag}: {line.strip()[:140]}")
        except BaseException:
            process.terminate()
            raise
    return None if process.returncode == 0 else lines


@contextmanager
def _staged(group: jars.Group) -> Iterator[Path]:
    """Yield a build folder with the jars of a stand-in and the files that its Dockerfile copies."""
    with tempfile.TemporaryDirectory(prefix="tailrace-image-") as folder:
        root = Path(folder)
        for name in _STAGED:
            target = root / "compose" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CLONE / "compose" / name, target)
        if group == "registry":
            shutil.copytree(jars.registry_home(_say), root / "registry")
            (runner,) = (root / "registry").glob("*-runner.jar")
            runner.rename(root / "registry" / "runner.jar")
        else:
            (root / "jars" / group).mkdir(parents=True)
            for path in jars.ensure(group, _say):
                shutil.copy(path, root / "jars" / group)
        yield root


@contextmanager
def _network_settings(environ: Mapping[str, str], engine: Engine) -> Iterator[list[str]]:
    """Yield the build arguments with which a build reaches the package registries."""
    arguments: list[str] = []
    proxies = [
        name for lower in _PROXY_VARIABLES for name in (lower, lower.upper()) if environ.get(name)
    ]
    # By name only: the value comes from the environment and appears in no process list.
    for name in proxies:
        arguments += ["--build-arg", name]
    is_local = any("127.0.0.1" in environ[n] or "localhost" in environ[n] for n in proxies)
    if is_local or not engine.has_bridge:
        arguments += ["--network=host"]
    if environ.get("TAILRACE_MAVEN_MIRROR"):
        arguments += ["--build-arg", "TAILRACE_MAVEN_MIRROR"]
    bundle = next((environ[name] for name in _CA_VARIABLES if environ.get(name)), None)
    if bundle and Path(bundle).is_file():
        arguments += ["--secret", f"id=ca,src={Path(bundle).resolve()}"]
    with tempfile.TemporaryDirectory(prefix="tailrace-pip-") as folder:
        settings = Path(folder) / "pip.conf"
        settings.touch(mode=0o600)
        with settings.open("w") as handle:
            pip_settings(environ).write(handle)
        yield [*arguments, "--secret", f"id=pip,src={settings}"]


def pip_settings(environ: Mapping[str, str]) -> configparser.ConfigParser:
    """Return where pip finds packages on this machine: its files, overridden by its variables."""
    parser = configparser.ConfigParser(interpolation=None)
    named = environ.get("PIP_CONFIG_FILE")
    files = [named] if named else [str(Path(path).expanduser()) for path in reversed(_PIP_FILES)]
    parser.read(files)
    found = configparser.ConfigParser(interpolation=None)
    found.add_section("global")
    for option in _PIP_OPTIONS:
        variable = f"PIP_{option.upper().replace('-', '_')}"
        value = environ.get(variable) or parser.get("global", option, fallback=None)
        if value:
            found.set("global", option, value)
    return found


def _say(line: str) -> None:
    sys.stdout.write(f"images: {line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Build the named images, or all; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tailrace_compose.images.build", description=__doc__
    )
    parser.add_argument("names", nargs="*", choices=[[], *IMAGES], help="default: all")
    parser.add_argument("--base", help="the base image: a Debian or Ubuntu with Python 3.11+")
    options = parser.parse_args(arguments)
    try:
        build(options.names or list(IMAGES), options.base)
    except (ImageBuildError, LocalStackError) as error:
        sys.stderr.write(f"\nimages: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nimages: stopped by Ctrl-C; run it again to continue\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
