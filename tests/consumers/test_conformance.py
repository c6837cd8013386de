"""The conformance kit: today's publisher writes it, and clients agree on what it means."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest

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


@pytest.fixture(scope="module")
def java() -> list[str]:
    """The command that compiles and runs a file of Java with Avro."""
    command = java_executable()
    asked = [command, "--list-modules"]
    modules = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=120)
    if "jdk.compiler" not in modules.stdout:
        pytest.skip("this Java has no compiler (Debian: openjdk-17-jdk-headless)")
    found = [str(jar) for jar in JARS.iterdir() if jar.name.startswith(NEEDED)]
    return [command, "-cp", ":".join(found), str(FOLDER / "Conformance.java")]


@pytest.mark.slow("Java compiles and runs a client, twice")
def test_a_client_in_java_agrees(java: list[str], tmp_path: Path):
    agreed = subprocess.run(
        [*java, str(FOLDER)], capture_output=True, text=True, check=False, timeout=300
    )
    assert agreed.returncode == 0, agreed.stderr
    groups, values = (
        len((FOLDER / name).read_text("utf-8").splitlines())
        for name in ("expected_groups.jsonl", "values.jsonl")
    )
    assert agreed.stdout == f"{groups} groups, {values} values\n"

    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    state = (FOLDER / "expected_state.json").read_text("utf-8")
    (tmp_path / "expected_state.json").write_text(state.replace("left alone", "lost"))
    differs = subprocess.run(
        [*java, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert differs.returncode == 1
    assert "state\n" in differs.stderr
