"""The base image: the official one if it can be pulled, else one built from Debian's packages."""

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
    """Return the name of an image in the engine to build upon.

    Args:
        wanted: the user's choice, which must exist or be pulled.
        progress: receives a line for each step.

    Raises:
        BaseImageUnavailable: there is none and none can be built; names the fix.
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
            f"{wanted} cannot be pulled ({said}). Fix: load it (`docker load`), name another one,"
            " or leave out BASE to build one from Debian's packages."
        )
    progress(f"{image} cannot be pulled; building {LOCAL} from Debian's packages")
    _make(engine, progress)
    return LOCAL


def _make(engine: Engine, progress: Progress) -> None:
    """Build a small Debian with Python and import it."""
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise BaseImageUnavailable(
            f"{OFFICIAL} cannot be pulled, and building a base needs root and debootstrap. Fix:"
            " install it (Debian: apt-get install debootstrap) and run as root; or load an image"
            " with Python 3.11 and name it: make images BASE=..."
        )
    mirror = os.environ.get("TAILRACE_DEBIAN_MIRROR")
    with tempfile.TemporaryDirectory(prefix="tailrace-base-") as folder:
        root = Path(folder) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", RELEASE, str(root)]
        _check([*command, *([mirror] if mirror else [])], "debootstrap")
        for stale in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(root / stale)
            (root / stale / "partial").mkdir(parents=True)
        # The build machine's network settings do not belong into the images.
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
            f"{name} failed with status {done.returncode}:\n{tail}\nFix: check the network and"
            " http_proxy, or name a mirror of Debian in TAILRACE_DEBIAN_MIRROR."
        )
