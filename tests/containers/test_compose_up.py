"""compose.yaml is started for real: the embedded server's profile, with all that can be had here.

Prometheus and Grafana come along where their images are on this machine; nothing is pulled.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from tailrace.testing import engine
from tests.pipeline.running import wait_until
from tests.unit.compose.test_compose_file import docker_compose, expressions

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow("starts the whole stack in containers"),
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("says_its_images"),
]
FOLDER = Path(__file__).parents[2] / "compose"
START_LIMIT_S = 300
STOP_LIMIT_S = 240
PARTS = {"emulator": "source", "provision": "publisher", "publisher": "publisher"}
PARTS |= {name: name for name in ("kafka", "registry", "sink")}
PARTS |= dict.fromkeys(("verify", "web"), "sink")
OURS = ("emulator", "provision", "publisher", "sink", "verify", "web")
WATCHERS = ("prometheus", "grafana")
CAUGHT_UP_LIMIT_S = 180
RETENTION = ("$retention_s", "259200")
ALWAYS_SHOWN = ("Publishing", "Sink answers", "Publisher's lag", "Retention slack", "LSN up to")
SINK_REACHED = "tailrace_sink_through_commit_timestamp_seconds"


@dataclass
class Composed:
    """A project of its own that was started from a copy of compose/."""

    command: list[str]
    services: list[str]

    def run(self, *arguments: str, limit_s: float = 60) -> str:
        done = subprocess.run(
            [*self.command, *arguments],
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def states(self) -> dict[str, dict[str, object]]:
        lines = self.run("ps", "--all", "--format", "json").splitlines()
        return {str(state["Service"]): state for state in map(json.loads, lines)}

    def inside(self, service: str, code: str, **environ: str) -> str:
        """Runs Python in a container."""
        variables = [word for item in environ.items() for word in ("--env", "=".join(item))]
        return self.run("exec", "--no-TTY", *variables, service, "python", "-I", "-c", code)


@pytest.fixture(scope="module")
def composed(images, tmp_path_factory) -> Iterator[Composed]:
    """The profile `emulator`, up and healthy; at the end each part ends in order."""
    compose = docker_compose()
    if os.geteuid() != 0:
        pytest.skip("only root may give the passwords to the containers' user")
    folder = tmp_path_factory.mktemp("compose") / "compose"
    unused = shutil.ignore_patterns("secrets", "images", "local", "__pycache__")
    shutil.copytree(FOLDER, folder, ignore=unused)
    subprocess.run([folder / "prepare.sh"], check=True, capture_output=True)
    chosen = {service: {"image": images[part]} for service, part in PARTS.items()}
    (folder / "chosen.yaml").write_text(yaml.safe_dump({"services": chosen}))
    shared = [] if engine.has_bridge() else ["host-network.yaml"]
    command = [*compose, "--project-name", f"tailrace-{uuid.uuid4().hex[:8]}"]
    command += ["--profile", "emulator"]
    for name in ("compose.yaml", *shared, "chosen.yaml"):
        command += ["--file", str(folder / name)]
    made = Composed(command, [*PARTS])
    declared = json.loads(made.run("config", "--format", "json"))["services"]
    held = images_held()
    made.services += [name for name in WATCHERS if declared[name]["image"] in held]
    try:
        try:
            made.run(
                *("up", "--detach", "--no-build", "--pull", "never", "--wait"),
                *("--wait-timeout", str(START_LIMIT_S), *made.services),
                limit_s=START_LIMIT_S + 60,
            )
        except AssertionError as error:
            error.add_note(made.run("logs", "--no-color", "--tail", "20"))
            raise
        yield made
        made.run("stop", limit_s=STOP_LIMIT_S)
        ended = {name: state["ExitCode"] for name, state in made.states().items()}
        assert {name: ended[name] for name in OURS} == dict.fromkeys(OURS, 0)
    finally:
        made.run("down", "--volumes", "--timeout", "30", limit_s=STOP_LIMIT_S)
        assert not made.states()


def images_held() -> set[str]:
    client = docker.from_env()
    try:
        return {tag for image in client.images.list() for tag in image.tags}
    finally:
        client.close()


def figure(composed: Composed, service: str, name: str) -> float:
    """The sum of a series over its labels, as the part's own endpoint says it."""
    port = {"publisher": 9404, "sink": 9405}[service]
    asked = f"urllib.request.urlopen('http://127.0.0.1:{port}/metrics')"
    page = composed.inside(
        service, f"import urllib.request; print({asked}.read().decode())", http_proxy=""
    )
    return sum(map(float, re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", page, re.MULTILINE)))


def test_every_part_is_healthy_and_held_in_bounds(composed):
    states = composed.states()
    assert states.keys() == set(composed.services)
    assert {state["Health"] for state in states.values()} == {"healthy"}
    client = docker.from_env()
    try:
        for name, state in states.items():
            found = client.containers.get(state["ID"]).attrs
            host = found["HostConfig"]
            assert host["Memory"] > 0, name
            assert host["PidsLimit"] > 0, name
            assert host["RestartPolicy"]["Name"] == "unless-stopped", name
            environment = "\n".join(found["Config"]["Env"])
            assert not re.search(r"PASSWORD=", environment), name
            if name in OURS:
                assert found["Config"]["User"] == "10001:10001"
                assert host["ReadonlyRootfs"] is True
                assert host["CapDrop"] == ["ALL"]
    finally:
        client.close()


def test_the_workload_reaches_topics_and_lake(composed):
    rows = figure(composed, "publisher", "tailrace_rows_total")
    wait_until(
        lambda: figure(composed, "publisher", "tailrace_rows_total") > rows + 5,
        "the workload is published",
        CAUGHT_UP_LIMIT_S,
    )
    through = figure(composed, "publisher", "tailrace_through_commit_timestamp_seconds")
    wait_until(
        lambda: figure(composed, "sink", SINK_REACHED) >= through,
        "the lake reaches what was published",
        CAUGHT_UP_LIMIT_S,
    )
    assert figure(composed, "sink", "tailrace_sink_changes_total") > rows


def test_prometheus_reaches_publisher_and_sink_and_takes_the_rules(composed):
    if "prometheus" not in composed.services:
        pytest.skip("no image of Prometheus here; nothing is pulled")
    page = "http://127.0.0.1:9090/api/v1/"

    def asked(path: str) -> dict[str, Any]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(page + path, timeout=10) as answer:
            return dict(json.load(answer)["data"])

    def all_up() -> bool:
        return {t["health"] for t in asked("targets")["activeTargets"]} == {"up"}

    wait_until(all_up, "publisher and sink are scraped", 60)
    wait_until(
        lambda: {r["health"] for g in asked("rules")["groups"] for r in g["rules"]} == {"ok"},
        "every rule was evaluated",
        60,
    )
    # The dashboard has no other judge here: an expression that does not parse is an HTTP error.
    shown = {
        place: asked("query?" + urllib.parse.urlencode({"query": text.replace(*RETENTION)}))
        for place, text in expressions().items()
        if " " in place
    }
    always = [place for place in shown if place.startswith(ALWAYS_SHOWN)]
    assert len(always) == len(ALWAYS_SHOWN)
    assert all(shown[place]["result"] for place in always)
