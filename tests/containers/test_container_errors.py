"""What goes wrong with containers is said with what to do about it, and nothing is left behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyodbc
import pytest
from testcontainers.core.container import DockerContainer

from tailrace.testing import SqlServerCdcContainer, engine
from tailrace.testing.errors import (
    ContainerFailed,
    EulaNotAccepted,
    ImageMissing,
    PasswordRefused,
    PortTaken,
)
from tailrace_emulator.testing.process import free_port
from tailrace_emulator.testing.source import native_numbers
from tests.pipeline.running import wait_until

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow("builds and starts images"), pytest.mark.usefixtures("images")]
NOWHERE = "tailrace-nowhere.invalid/none:1"


@pytest.fixture
def client(container_engine):
    import docker

    opened = docker.from_env()
    yield opened
    opened.close()


def names(client) -> set[str]:
    return {container.name for container in client.containers.list(all=True, ignore_removed=True)}


@pytest.fixture(autouse=True)
def nothing_is_left_behind(client):
    before = names(client)
    yield
    assert names(client) == before


def test_a_port_that_is_taken_is_named(images):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)):
            SqlServerCdcContainer(images["source"], accept_eula=True, port=port).start()


def test_an_image_that_cannot_be_had_is_named():
    with pytest.raises(ImageMissing, match=f"{NOWHERE}.*make images"):
        SqlServerCdcContainer(NOWHERE, accept_eula=True).start()


def test_the_terms_must_be_accepted_by_the_user(monkeypatch):
    monkeypatch.delenv("ACCEPT_EULA", raising=False)
    monkeypatch.delenv("TAILRACE_SQLSERVER_IMAGE", raising=False)
    with pytest.raises(EulaNotAccepted, match="accept_eula=True"):
        SqlServerCdcContainer()


def test_a_weak_password_is_refused_before_anything_starts(images):
    with pytest.raises(PasswordRefused, match="three kinds"):
        SqlServerCdcContainer(images["source"], accept_eula=True, password="secretsecret")


def test_a_container_that_ends_shows_the_end_of_its_log(images):
    container = SqlServerCdcContainer(images["source"], accept_eula=True)
    container.with_env("TAILRACE_AGENT", "on").with_env("MSSQL_LCID", "none")
    with pytest.raises(ContainerFailed, match="ended with status") as failed:
        container.start()
    assert "log ends with" in str(failed.value)
    container.stop()  # a second time does no harm


def test_an_unhealthy_container_shows_what_its_check_said(images):
    container = DockerContainer(images["registry"]).with_kwargs(
        network_mode="host",
        entrypoint=["sleep", "600"],
        healthcheck={
            "test": ["CMD-SHELL", "echo the disk is full; exit 1"],
            "interval": 200_000_000,
            "retries": 1,
            # Failures count from the first on; zero would mean the image's own 60 seconds.
            "start_period": 1_000_000,
        },
    )
    engine.start(container)
    try:
        with pytest.raises(ContainerFailed, match=r"is unhealthy \(the disk is full"):
            engine.wait_until(container, lambda: False, 60, "ready")
    finally:
        container.stop()


def test_a_container_that_is_never_ready_is_given_up_in_time(images):
    container = DockerContainer(images["registry"]).with_kwargs(
        network_mode="host", entrypoint=["sleep", "600"]
    )
    engine.start(container)
    try:
        with pytest.raises(ContainerFailed, match="an answer: not within 1 s"):
            engine.wait_until(container, lambda: False, 1, "an answer")
    finally:
        container.stop()


def test_a_wrong_password_is_refused_by_server_and_publisher(images, tmp_path):
    with SqlServerCdcContainer(images["source"], accept_eula=True) as server:
        with pytest.raises(pyodbc.Error) as refused:
            pyodbc.connect(server.connection_string(PWD="Wrong-123"), timeout=5)
        assert 18456 in native_numbers(refused.value)

        publisher = DockerContainer(images["publisher"]).with_kwargs(network_mode="host")
        flags = ["prefix=p", "kafka.bootstrap=127.0.0.1:1", "registry.url=http://127.0.0.1:1"]
        source = {"host": "127.0.0.1", "port": server.port, "database": "master"}
        source |= {"user": "sa", "password": "Wrong-123", "trust_server_certificate": "true"}
        flags += [f"publisher.source.{name}={value}" for name, value in source.items()]
        flags += [f"publisher.metrics_port={free_port()}"]
        publisher.with_command(["publish", *(word for flag in flags for word in ("--set", flag))])
        engine.start(publisher)
        try:
            wrapped = publisher.get_wrapped_container()

            def is_told() -> bool:
                return "LoginRefused" in wrapped.logs().decode()

            wait_until(is_told, "the publisher says that its login is refused", 60)
            assert "Wrong-123" not in wrapped.logs().decode()
        finally:
            publisher.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_of_pytest_that_is_stopped_leaves_no_container(images, client, tmp_path, number):
    (tmp_path / "test_server.py").write_text(
        "import threading\n"
        "from tailrace.testing import SqlServerCdcContainer\n"
        "def test_it():\n"
        f"    with SqlServerCdcContainer({images['source']!r}, accept_eula=True) as server:\n"
        "        print(server.get_wrapped_container().name, flush=True)\n"
        "        threading.Event().wait(120)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    ) as child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        assert name in names(client)
        child.send_signal(number)
        child.wait(60)
    wait_until(lambda: name not in names(client), "the container is gone", 30)
