"""Which engine and which images the container tests use; without an engine they are skipped."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from tailrace.testing import engine
from tailrace.testing.errors import EngineUnavailable, ImageMissing
from tailrace_compose.images.build import IMAGES, SOURCES_LABEL, sources_digest
from tailrace_compose.local import jars

PULL_LIMIT_S = 600
USED = "container image"
OFFICIAL = {
    "source": "mcr.microsoft.com/mssql/server:2022-latest",
    "kafka": f"apache/kafka:{jars.version_of('kafka', 'kafka_2.13')}",
    "registry": "apicurio/apicurio-registry:"
    + jars.version_of("registry", "apicurio-registry-app"),
}
"""The defaults; TAILRACE_SOURCE_IMAGE and so on choose others."""
LOCAL = {
    "source": IMAGES["emulator"].tag,
    **{name: IMAGES[name].tag for name in ("kafka", "registry", "publisher", "sink")},
}


@dataclass(frozen=True)
class Images:
    """The image of each part, and why it is that one."""

    tags: dict[str, str]
    reasons: dict[str, str]

    def __getitem__(self, part: str) -> str:
        return self.tags[part]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """One line for each file at the end of a run, not one for each test that is skipped."""
    report = yield
    if report.when == "setup" and report.skipped:
        _, _, reason = report.longrepr
        report.longrepr = (item.path.relative_to(item.config.rootpath).as_posix(), None, reason)
    return report


@pytest.fixture(scope="session")
def container_engine() -> None:
    """Skips where no engine answers."""
    try:
        engine.has_bridge()
    except EngineUnavailable as error:
        reason, _, _ = str(error).partition(". ")
        pytest.skip(f"{reason}; what to do: docs/containers.md")


@pytest.fixture(scope="session")
def images(container_engine: None) -> Images:
    """Official images where they are here or can be pulled, else those that `make images` built."""
    import docker

    client = docker.from_env(timeout=PULL_LIMIT_S)
    tags: dict[str, str] = {}
    reasons: dict[str, str] = {}
    try:
        for part in ("source", "kafka", "registry", "publisher", "sink"):
            tags[part], reasons[part] = choose(client, part)
    except ImageMissing as error:
        pytest.skip(str(error))
    finally:
        client.close()
    return Images(tags, reasons)


def choose(client, part: str) -> tuple[str, str]:
    """The image of a part and the reason.

    Raises:
        ImageMissing: neither is to be had.
    """
    variable = f"TAILRACE_{part.upper()}_IMAGE"
    if os.environ.get(variable):
        return os.environ[variable], variable
    why = "it is made here"
    if part in OFFICIAL:
        refusal = why_not(client, OFFICIAL[part], part)
        if refusal is None:
            return OFFICIAL[part], "the official one"
        why = f"{OFFICIAL[part]}: {refusal}"
    from docker.errors import ImageNotFound

    try:
        found = client.images.get(LOCAL[part])
    except ImageNotFound:
        raise ImageMissing(f"{LOCAL[part]} is not there ({why}): run `make images`") from None
    built_from = found.labels.get(SOURCES_LABEL)
    if part not in ("kafka", "registry") and built_from != sources_digest():
        pytest.fail(f"{LOCAL[part]} was built from other sources than these: run `make images`")
    return LOCAL[part], f"the stand-in, {why}" if part in OFFICIAL else why


def why_not(client, image: str, part: str) -> str | None:
    """Why an official image cannot be used; None when it can."""
    from docker.errors import APIError, ImageNotFound

    if part == "source" and os.environ.get("ACCEPT_EULA", "").upper() != "Y":
        return "its terms were not accepted (ACCEPT_EULA=Y does)"
    try:
        client.images.get(image)
    except ImageNotFound:
        pass
    else:
        return None
    try:
        client.images.pull(image)
    except (APIError, ImageNotFound) as error:
        return f"cannot be pulled ({str(error.explanation or error)[:120]})"
    return None


@pytest.fixture
def says_its_images(images: Images, record_property) -> None:
    """The run ends with the images that were used (tests/fix_containers.py prints them)."""
    for part, tag in images.tags.items():
        record_property(USED, f"{part}: {tag} ({images.reasons[part]})")
