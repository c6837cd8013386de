"""The conformance kit: today's publisher writes it, and clients agree on what it means."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from tailrace_compose.local.cache import cache_dir, exclusive
from tailrace_compose.local.java import java_executable
from tests.consumers.conformance import Subscriber, records_of
from tests.consumers.kit import FOLDER, PROGRESS, files

RENEW = "run: python -m tests.consumers.kit"
JARS = Path(pyspark.__file__).parent / "jars"
NEEDED = ("avro-1", "jackson-core-", "jackson-databind", "jackson-annotations", "slf4j-api")


def test_the_publisher_writes_the_records_of_the_kit():
    written = files()

    assert set(written) == {file.name for file in FOLDER.glob("*.json*")}
    for name, text in written.items():
        assert (FOLDER / name).read_text("utf-8") == text, f"{name} differs; {RENEW}"
    assert sum(map(len, written.values())) < 300_000


def test_the_kit_has_what_the_contract_speaks_of():
    groups = [json.loads(line) for line in (FOLDER / "expected_groups.jsonl").open()]
    events = [event for group in groups for event in group["events"]]
    schemas = json.loads((FOLDER / "schemas.json").read_text("utf-8"))
    records = records_of(FOLDER / "records.jsonl")
    subscriber = Subscriber(records, schemas, PROGRESS)
    progress = [subscriber.decode(r.value or b"") for r in records if r.topic == PROGRESS]

    assert {event["op"] for event in events} == {"c", "u", "d", "r"}
    assert {event["snapshot"] for event in events} == {None, "true", "last"}
    assert [event["after"]["body"] for event in events if event["unavailable"]] == [None, None]
    assert any(record.value is None for record in records), "tombstones"
    assert {record.partition for record in records} == {0, 1}
    assert not all(record["closed"] for record in progress)
    assert any(not record["partitions"] and record["closed"] for record in progress), "heartbeats"
    out = ["sim.shop.dbo.orders" in record["snapshotting"] for record in progress]
    assert (True, False, True) in zip(out, out[1:], out[2:], strict=False), "it starts again"
    versions = [s for s in schemas.values() if s.get("sqlTable") == ["shop", "dbo", "lines"]]
    assert len({s["schemaLsn"] for s in versions}) == 2


def java() -> list[str]:
    """The command that compiles and runs the client in Java."""
    command = java_executable()
    asked = [command, "--list-modules"]
    modules = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=120)
    if "jdk.compiler" not in modules.stdout:
        pytest.skip("this Java has no compiler (Debian: openjdk-17-jdk-headless)")
    found = [str(jar) for jar in JARS.iterdir() if jar.name.startswith(NEEDED)]
    return [command, "-cp", ":".join(found), str(FOLDER / "Conformance.java")]


def node() -> list[str]:
    """The command that runs the client in JavaScript, with its packages in the cache folder."""
    found = {name: shutil.which(name) for name in ("node", "npm")}
    for name, command in found.items():
        if command is None:
            pytest.skip(f"there is no {name}, for the client in JavaScript (Debian: nodejs, npm)")
    files = sorted((FOLDER / "node").glob("*.*"))
    known = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    home = cache_dir() / "node" / known
    with exclusive("node"):
        if not home.is_dir():
            partial = home.with_name(f"{known}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(FOLDER / "node", partial, ignore=shutil.ignore_patterns("node_modules"))
            command = [str(found["npm"]), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run(command, cwd=partial, check=True, timeout=300)
            partial.rename(home)
    return [str(found["node"]), str(home / "conformance.mjs")]


@pytest.mark.parametrize(
    "client", [pytest.param(java, marks=pytest.mark.slow("Java compiles a client, twice")), node]
)
def test_a_client_in_another_language_agrees(client: Callable[[], list[str]], tmp_path: Path):
    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        asked = [*command, str(folder)]
        return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=300)

    command = client()
    agreed = run(FOLDER)
    assert agreed.returncode == 0, agreed.stderr
    groups, values = (
        len((FOLDER / name).read_text("utf-8").splitlines())
        for name in ("expected_groups.jsonl", "values.jsonl")
    )
    assert agreed.stdout == f"{groups} groups, {values} values\n"

    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    state = (FOLDER / "expected_state.json").read_text("utf-8")
    (tmp_path / "expected_state.json").write_text(state.replace("left alone", "lost"))
    differs = run(tmp_path)
    assert differs.returncode == 1
    assert "state\n" in differs.stderr
