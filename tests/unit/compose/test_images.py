"""What the images are made of: packages, users, entry points, health checks."""

import ast
import re
import socket
import threading
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tailrace_compose.images import health, packages
from tailrace_compose.images.base import OFFICIAL
from tailrace_compose.images.build import IMAGES, pip_settings
from tailrace_compose.images.emulator_entry import NotConfigured, arguments_of, password_file_of
from tailrace_compose.images.engine import find_engine
from tailrace_compose.images.errors import EngineUnavailable
from tailrace_compose.images.kafka_entry import settings_of
from tailrace_compose.local import set_up

ROOT = Path(__file__).parents[3]
LOCK = (ROOT / "requirements.lock").read_text()
# What the command `publish` and the embedded server are made of; what runs at import only counts.
PUBLISHER_CODE = (
    "schemas",
    "service",
    "emulator/tailrace_emulator",
    "publisher",
    "compose",
    "tailrace/cli/root.py",
    "tailrace/settings/load.py",
)
SINK_CODE = ("schemas", "service", "spark_sink", "compose/tailrace_compose/local")
OURS = {"tailrace", "tailrace-emulator"}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Code that uses them asks first whether they are there, and the image is to stay slim without them.
FAST = {re.split("[<>=]", name)[0] for name in PROJECT["optional-dependencies"]["fast"]}


def third_party(paths: tuple[str, ...]) -> set[str]:
    """Distributions that code imports, wherever in a file it does so."""
    modules = set()
    for path in paths:
        files = [ROOT / path] if path.endswith(".py") else sorted((ROOT / path).rglob("*.py"))
        # Fixtures for other people's tests: pytest imports them, never an image's program.
        for file in (file for file in files if file.name != "pytest_plugin.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    modules |= {name.name.split(".")[0] for name in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    modules.add(node.module.split(".")[0])
    by_module = metadata.packages_distributions()
    return {
        by_module[name][0].lower().replace("_", "-") for name in modules if name in by_module
    } - OURS


@pytest.mark.parametrize(("image", "code"), [("publisher", PUBLISHER_CODE), ("sink", SINK_CODE)])
def test_an_image_has_the_packages_that_its_code_imports(image, code):
    part = packages.part_of(LOCK, packages.ROOTS[image])
    present = set(re.findall(r"^([\w.-]+)==", part, re.MULTILINE))
    optional = FAST if image == "publisher" else set()
    assert third_party(code) - present - optional == set(), (
        "name it in compose/tailrace_compose/images/packages.py"
    )


def test_the_publishers_image_is_slim():
    part = packages.part_of(LOCK, packages.ROOTS["publisher"])
    assert not re.search(r"^(pyspark|pandas|pyarrow|pytest|mypy)==", part, re.MULTILINE)


def test_each_package_keeps_its_hashes():
    part = packages.part_of(LOCK, packages.ROOTS["sink"])
    for entry in re.split(r"^(?=\w)", part, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in entry


def test_an_unknown_package_is_named():
    with pytest.raises(packages.PackageUnknown, match="no-such-thing"):
        packages.part_of(LOCK, {"no-such-thing"})


@pytest.mark.parametrize("name", sorted(IMAGES))
def test_dockerfiles_keep_the_rules(name):
    image = IMAGES[name]
    text = (ROOT / "compose" / "images" / image.dockerfile).read_text()
    assert f"ARG BASE_IMAGE={OFFICIAL}\n" in text
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE)[0] == "${BASE_IMAGE}"
    last_user = re.findall(r"^USER (\S+)", text, re.MULTILINE)[-1]
    assert last_user != "root"
    assert "HEALTHCHECK" in text
    assert "org.opencontainers.image.title" in text
    # The shell form would not hand SIGTERM on.
    assert re.findall(r"^ENTRYPOINT (.)", text, re.MULTILINE) == ["["] * text.count("\nENTRYPOINT")
    assert not re.search(r"^(ARG|ENV) .*(PROXY|proxy|CERT|INDEX_URL)", text, re.MULTILINE)


def test_images_install_what_set_up_asks_for():
    for dockerfile in ("publisher.Dockerfile", "sink.Dockerfile"):
        text = (ROOT / "compose" / "images" / dockerfile).read_text()
        for package in set_up.LIBRARIES.values():
            assert package in text
    assert set_up.JAVA_PACKAGES[0] in text
    version = re.search(r"python:(\d+)\.(\d+)-", OFFICIAL)
    assert version is not None
    assert (int(version[1]), int(version[2])) >= set_up.PYTHON_MIN


def test_the_embedded_servers_image_reads_sql_servers_variables(tmp_path):
    arguments = arguments_of({"MSSQL_AGENT_ENABLED": "true", "MSSQL_TCP_PORT": "1500"}, "/p")
    assert arguments[arguments.index("--agent") + 1] == "auto"
    assert arguments[arguments.index("--port") + 1] == "1500"
    assert "stopped" in arguments_of({}, "/p")
    assert "manual" in arguments_of({"TAILRACE_AGENT": "manual"}, "/p")
    with pytest.raises(NotConfigured, match="auto, manual or stopped"):
        arguments_of({"TAILRACE_AGENT": "on"}, "/p")
    with pytest.raises(NotConfigured, match="MSSQL_SA_PASSWORD_FILE"):
        password_file_of({})
    with pytest.raises(NotConfigured, match="mount it as a secret"):
        password_file_of({"MSSQL_SA_PASSWORD_FILE": str(tmp_path / "none")})
    assert Path(password_file_of({"MSSQL_SA_PASSWORD": "Pass-1"})).read_text() == "Pass-1"


def test_the_kafka_stand_in_reads_kafkas_variables():
    assert settings_of(
        {"KAFKA_LOG_DIRS": "/d", "KAFKA_A__B": "1", "KAFKA_C___D": "2", "KAFKA_HEAP_OPTS": "x"}
    ) == {"log.dirs": "/d", "a_b": "1", "c-d": "2"}


def test_health_of_a_server_that_speaks_tds(serve_in_process):
    server = serve_in_process()
    health.check_tds({"MSSQL_TCP_PORT": str(server.port)})


def test_health_says_what_was_seen():
    with socket.create_server(("127.0.0.1", 0)) as closing_at_once:
        port = closing_at_once.getsockname()[1]
        thread = threading.Thread(target=lambda: closing_at_once.accept()[0].close())
        thread.start()
        with pytest.raises(health.Unhealthy, match=str(port)):
            health.check_kafka({"KAFKA_LISTENERS": f"CONTROLLER://:1,CLIENTS://:{port}"})
        thread.join()
    with pytest.raises(health.Unhealthy, match="no listener for clients"):
        health.check_kafka({"KAFKA_LISTENERS": "CONTROLLER://:9093"})
    with pytest.raises(health.Unhealthy, match="refused"):
        health.check_registry({"QUARKUS_HTTP_PORT": str(port)})


def test_pip_goes_where_this_machine_sends_it(tmp_path):
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://mirror.example/simple\n")
    found = pip_settings({"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_TRUSTED_HOST": "m"})
    assert dict(found["global"]) == {
        "index-url": "https://mirror.example/simple",
        "trusted-host": "m",
    }


def test_a_machine_without_an_engine_is_told_what_to_install(tmp_path, monkeypatch):
    with pytest.raises(EngineUnavailable, match=r"apt-get install docker\.io"):
        find_engine({"PATH": str(tmp_path)})
    client = tmp_path / "docker"
    for said, advice in (
        ("Cannot connect to the Docker daemon", "dockerd --iptables=false"),
        ("permission denied while trying to connect", "--groups docker"),
    ):
        client.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
        client.chmod(0o755)
        with pytest.raises(EngineUnavailable, match=advice):
            find_engine({"PATH": str(tmp_path)})


@pytest.mark.parametrize("name", ["publisher", "sink"])
def test_what_a_package_links_to_is_copied_with_it(name: str):
    text = (ROOT / f"compose/images/{name}.Dockerfile").read_text()
    copied = {
        path for line in re.findall(r"(?m)^COPY (?!--)(.+) \S+$", text) for path in line.split()
    }
    links = [path for path in (ROOT / "tailrace").rglob("*") if path.is_symlink()]

    assert links
    assert "tailrace" in copied
    for link in links:
        target = link.resolve().relative_to(ROOT)
        assert {path.as_posix() for path in (target, *target.parents)} & copied, link
