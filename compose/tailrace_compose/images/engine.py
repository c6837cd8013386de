"""The container engine for ``make images``: whether it answers, and what it can do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailrace_compose.images.errors import EngineUnavailable

_ANSWER_LIMIT_S = 30
# From this version on, the client builds with a plugin; older ones have BuildKit built in.
_PLUGIN_SINCE = 23

START_ADVICE = (
    "Start it (Debian: apt-get install docker.io, then `systemctl start docker`), or by hand on a"
    " machine without systemd: `dockerd --iptables=false --bridge=none`; containers then share the"
    " machine's network. DOCKER_HOST names an engine elsewhere."
)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answers, and the client that builds for it.

    Attributes:
        client: path of the docker command.
        has_bridge: whether containers can have a network of their own; else only the machine's.
    """

    client: str
    has_bridge: bool

    def has_image(self, image: str) -> bool:
        """Return whether the engine holds an image."""
        return _run([self.client, "image", "inspect", image]).returncode == 0

    def image_id(self, image: str) -> str | None:
        """Return the id that an image's name refers to now; None if there is no such image."""
        done = _run([self.client, "image", "inspect", "--format", "{{.Id}}", image])
        return done.stdout.strip() if done.returncode == 0 else None

    def forget(self, image_id: str) -> None:
        """Remove an image that has lost its name, unless a container uses it."""
        _run([self.client, "image", "rm", image_id])

    def pull(self, image: str, limit_s: float) -> str | None:
        """Pull an image; return the engine's message if it could not."""
        try:
            done = _run([self.client, "pull", "--quiet", image], limit_s)
        except subprocess.TimeoutExpired:
            return f"no answer within {limit_s:g} s"
        return None if done.returncode == 0 else (done.stderr or done.stdout).strip()


def find_engine(environ: Mapping[str, str] = os.environ) -> Engine:
    """Find the engine of this machine.

    Raises:
        EngineUnavailable: none answers, or no client can build; names what to install or start.
    """
    clients = _clients(environ.get("PATH", ""))
    if not clients:
        raise EngineUnavailable(
            "no docker command was found. Fix: install an engine (Debian: apt-get install"
            " docker.io)."
        )
    answer = _run([clients[0], "version", "--format", "{{.Server.Version}}"])
    if answer.returncode != 0:
        said = (answer.stderr or answer.stdout).strip().splitlines()
        if any("permission denied" in line for line in said):
            raise EngineUnavailable(
                "the container engine refuses this user. Run it as root, or join its group"
                " (`sudo usermod --append --groups docker $USER`, then log in again)."
            )
        raise EngineUnavailable(
            f"no container engine answers ({said[-1] if said else 'no message'}). {START_ADVICE}"
        )
    builders = [client for client in clients if _has_buildkit(client)]
    if not builders:
        raise EngineUnavailable(
            f"{clients[0]} cannot build with BuildKit, which keeps proxy and certificate settings"
            " out of the images. Install its plugin docker-buildx, or Debian's docker.io."
        )
    networks = _run([clients[0], "network", "ls", "--format", "{{.Driver}}"]).stdout.split()
    return Engine(builders[0], "bridge" in networks)


def _clients(path: str) -> list[str]:
    """Return every docker command on the path, in order."""
    found = [shutil.which("docker", path=folder) for folder in path.split(os.pathsep) if folder]
    return list(dict.fromkeys(client for client in found if client))


def _has_buildkit(client: str) -> bool:
    if _run([client, "buildx", "version"]).returncode == 0:
        return True
    shown = _run([client, "--version"]).stdout
    match = re.search(r"version (\d+)\.", shown)
    return match is not None and int(match[1]) < _PLUGIN_SINCE


def _run(
    command: Sequence[str], limit_s: float = _ANSWER_LIMIT_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the engine's own client
        command,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )
