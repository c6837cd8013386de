"""The base image: the official one where it can be pulled, else one made from Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tailrace_compose.images.engine import Engine
from tailrace_compose.images.errors import BaseImageUnavailable

OFFICIAL = "python:3.11-slim-bookworm"
LOCAL = "tailrace-base:bookworm"
RELEASE = "bookworm"
# Python for everything that runs in our images; certificates for TLS to the outside.
_PACKAGES = "python3,ca-certificates"
_PULL_LIMIT_S = 300.0

Progress = Callable[[str], None]


def base_image(engine: Engine, wanted: str | None, progress: Progress) -> str:
    """The name of an image in the engine to build upon.

    Args:
        engine: where images are.
        wanted: the user's choice; it must be there or be pulled.
        progress: receives a line for each step.

    Raises:
        BaseImageUnavailable: there is none and none can be made; says what to do.
    """
    for image in (wanted,) if wanted else (OFFICIAL, LOCAL):
        if engine.has_image(image):
            return image
    image = wanted or OFFICIAL
    progress(f"pulling {image}")
    said = engine.pull(image, _PULL_LIMIT_S)
    if said is None:
        return image
    if wanted:
        raise BaseImageUnavailable(
            f"{wanted} cannot be pulled ({said}). Load it (`docker load`), name another one, or"
            " leave BASE away to have one made from Debian's packages."
        )
    progress(f"{image} cannot be pulled; making {LOCAL} from Debian's packages")
    _make(engine, progress)
    return LOCAL


def _make(engine: Engine, progress: Progress) -> None:
    """Makes a small Debian with Python and imports it."""
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise BaseImageUnavailable(
            f"{OFFICIAL} cannot be pulled, and making a base takes root and debootstrap (Debian:"
            " apt-get install debootstrap). Or load an image with Python 3.11 and name it:"
            " make images BASE=..."
        )
    mirror = os.environ.get("TAILRACE_DEBIAN_MIRROR")
    with tempfile.TemporaryDirectory(prefix="tailrace-base-") as folder:
        root = Path(folder) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", RELEASE, str(root)]
        _check([*command, *([mirror] if mirror else [])], "debootstrap")
        for stale in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(root / stale)
            (root / stale / "partial").mkdir(parents=True)
        # What the build machine told debootstrap of its network is not the images' business.
        (root / "etc/resolv.conf").write_text("")
        progress(f"importing {LOCAL}")
        archive = Path(folder) / "root.tar"
        _check(["tar", "--create", f"--directory={root}", f"--file={archive}", "."], "tar")
        changes = ["--change", 'CMD ["/bin/bash"]', "--change", "ENV LANG=C.UTF-8"]
        _check([engine.client, "import", *changes, str(archive), LOCAL], "docker import")


def _check(command: list[str], name: str) -> None:
    done = subprocess.run(  # noqa: S603 - the steps above
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise BaseImageUnavailable(
            f"{name} failed with status {done.returncode}:\n{tail}\nCheck the network, http_proxy,"
            " or name a mirror of Debian in TAILRACE_DEBIAN_MIRROR."
        )
