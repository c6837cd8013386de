"""Containers for tests, with errors that say what to do: no engine, no image, a taken port.

On an engine whose containers can have no network of their own (``dockerd --bridge=none``), they
share the machine's: the ports inside are the ports outside. That is found out here, once.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tailrace.testing import reaper
from tailrace.testing.errors import (
    ContainerFailed,
    EngineUnavailable,
    ImageMissing,
    PortTaken,
)

if TYPE_CHECKING:
    from docker.models.containers import Container
    from testcontainers.core.container import DockerContainer

_POLL_S: Final = 0.25
_LOG_LINES: Final = 25
_DEFAULT_ADDRESS: Final = "unix:///var/run/docker.sock"
_HOW_TO_START: Final = (
    "Start one (Debian: apt-get install docker.io, then `systemctl start docker`), or by hand:"
    " `dockerd --iptables=false --bridge=none`. EmulatedSqlServer needs none."
)
# How registries and the way to them say no; the engine gives such an error no number of its own.
_PULL_HINTS: Final = (
    "no such host",
    "manifest unknown",
    "pull access denied",
    "not found",
    "i/o timeout",
    "connection refused",
    "TLS handshake",
    "x509",
    "Client.Timeout",
    "toomanyrequests",
)


@functools.cache
def has_bridge() -> bool:
    """Whether the engine gives containers a network of their own; queried once.

    Raises:
        EngineUnavailable: none answers, or it refuses this user; says what to do.
    """
    try:
        import docker
        from docker.errors import DockerException
    except ImportError as error:
        raise EngineUnavailable(
            "the package testcontainers is missing: pip install 'tailrace[testing]'"
        ) from error
    try:
        client = docker.from_env(timeout=15)
        try:
            return any(network.attrs["Driver"] == "bridge" for network in client.networks.list())
        finally:
            client.close()
    except DockerException as error:
        if "ermission denied" in str(error):
            raise EngineUnavailable(
                "the container engine refuses this user: run as root or join its group"
                " (sudo usermod --append --groups docker $USER, then log in again)"
            ) from error
        address = os.environ.get("DOCKER_HOST", _DEFAULT_ADDRESS)
        raise EngineUnavailable(
            f"no container engine answers at {address} ({_cause(error)}). {_HOW_TO_START}"
        ) from error


def _cause(error: BaseException) -> str:
    """What the system said: docker wraps it twice, as arguments of other errors."""
    for inner in (*error.args, error.__context__):
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        if isinstance(inner, BaseException):
            return _cause(inner)
    return str(error)


def guard_against_leftovers() -> None:
    """See that containers go even when this process is killed.

    testcontainers' Ryuk does that where a port can be published; elsewhere a process of ours.
    """
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.labels import SESSION_ID

    if "TESTCONTAINERS_RYUK_DISABLED" not in os.environ and not has_bridge():
        testcontainers_config.ryuk_disabled = True
        reaper.watch(SESSION_ID)


def start(container: DockerContainer, *, port: int | None = None) -> None:
    """Create and start a container; nothing of it is left when that fails.

    Args:
        port: one on the machine that it will listen on, checked first.

    Raises:
        PortTaken, ImageMissing, EngineUnavailable, ContainerFailed: each with what to do.
    """
    from docker.errors import APIError, ImageNotFound

    guard_against_leftovers()
    if port is not None:
        _require_free(port, container.image)
    try:
        # The container's own start is the subclass's business; testcontainers' is wanted here.
        _start_of_testcontainers(container)
    except BaseException as error:
        with contextlib.suppress(APIError):
            _remove(container)
        text = str(getattr(error, "explanation", None) or error)
        if isinstance(error, ImageNotFound) or _is_pull_failure(error, text):
            raise ImageMissing(
                f"{container.image} is not on this machine and cannot be pulled ({text})."
                " Load it (docker load), name another image, or build the stand-ins with"
                " `make images` in a clone of Tailrace."
            ) from error
        if "already allocated" in text or "address already in use" in text:
            raise PortTaken(f"{container.image}: {text}. Stop what listens there.") from error
        if isinstance(error, APIError):
            raise ContainerFailed(f"{container.image} could not be started: {text}") from error
        raise


def wait_until(
    container: DockerContainer, is_ready: Callable[[], bool], limit_s: float, what: str
) -> None:
    """Wait for a started container; an end or a failed health check stops the wait at once.

    Args:
        is_ready: must return within seconds.
        limit_s: how long at most, in seconds.
        what: what is waited for, for the message.

    Raises:
        ContainerFailed: it ended, is unhealthy, or was not ready in time; has the end of its log.
    """
    deadline = time.monotonic() + limit_s
    pause = threading.Event()
    while True:
        wrapped = container.get_wrapped_container()
        wrapped.reload()
        if wrapped.status not in ("created", "running", "restarting"):
            code = wrapped.attrs["State"].get("ExitCode")
            raise failure(wrapped, container.image, f"ended with status {code}")
        health = wrapped.attrs["State"].get("Health") or {}
        if health.get("Status") == "unhealthy":
            said = (health.get("Log") or [{}])[-1].get("Output", "").strip()
            raise failure(wrapped, container.image, f"is unhealthy ({said})")
        if is_ready():
            return
        if time.monotonic() > deadline:
            raise failure(wrapped, container.image, f"{what}: not within {limit_s:g} s")
        pause.wait(_POLL_S)


def failure(wrapped: Container, image: str, reason: str) -> ContainerFailed:
    """The error that names the image, the reason and the end of the container's log."""
    lines = wrapped.logs(tail=_LOG_LINES).decode(errors="replace").strip()
    return ContainerFailed(f"{image} {reason}. Its log ends with:\n{lines or '(it is empty)'}")


def _start_of_testcontainers(container: DockerContainer) -> None:
    from testcontainers.core.container import DockerContainer

    DockerContainer.start(container)


def _remove(container: DockerContainer) -> None:
    wrapped: Any = container._container  # noqa: SLF001 - there is no public way to ask
    if wrapped is not None:
        wrapped.remove(force=True, v=True)


def _is_pull_failure(error: BaseException, text: str) -> bool:
    from docker.errors import APIError

    return isinstance(error, APIError) and any(hint in text for hint in _PULL_HINTS)


def _require_free(port: int, image: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortTaken(
                f"{image}: something listens on 127.0.0.1:{port} already. Stop it, or leave the"
                " port away to get a free one."
            ) from error
