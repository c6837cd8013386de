"""compose.yaml is sound, describes the stack that runs locally, and gives no password away."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from compose.local import jars, set_up
from tailrace.settings import load

FOLDER = Path(__file__).parents[2] / "compose"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((FOLDER / "compose.yaml").read_text()))


def test_versions_are_those_of_the_local_stack(compose):
    images = {name: service["image"] for name, service in compose["services"].items()}
    assert images["kafka"] == f"apache/kafka:{jars.version_of('kafka', 'kafka_2.13')}"
    registry = jars.version_of("registry", "apicurio-registry-app")
    assert images["registry"] == f"apicurio/apicurio-registry:{registry}"


def test_everything_that_is_named_is_declared(compose):
    services = compose["services"]
    for service in services.values():
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        assert set(service.get("depends_on", {})) <= set(services)
        volumes = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert volumes <= set(compose["volumes"])
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert "healthcheck" in services[needed]


def test_ports_are_open_on_this_machine_only(compose):
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_passwords_come_from_files_only(compose):
    assert all(set(secret) == {"file"} for secret in compose["secrets"].values())
    for service in compose["services"].values():
        names = [name for name in service.get("environment", {}) if "PASSWORD" in name.upper()]
        assert names == []
    command = compose["services"]["sqlserver"]["command"][0]
    assert re.findall(r"PASSWORD=(\S+)", command) == ['"$$(cat']


def test_configuration_is_accepted_and_points_at_the_services(compose):
    environment = {
        "TAILRACE__PUBLISHER__SOURCE__DATABASE": "Shop",
        "TAILRACE__PUBLISHER__SOURCE__USER": "tailrace",
    }
    assert environment.keys() == compose["services"]["publisher"]["environment"].keys()
    settings = load(FOLDER / "tailrace.yaml", environment)
    settings.check()
    publisher = settings.publisher()
    assert publisher.source.host in compose["services"]
    assert (
        publisher.kafka.bootstrap
        in (compose["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"])
    )
    secret = Path(str(publisher.source.password_file)).name
    assert secret in compose["services"]["publisher"]["secrets"]


def test_image_installs_what_set_up_asks_for():
    dockerfile = (FOLDER / "Dockerfile").read_text()
    for package in [*set_up.LIBRARIES.values(), set_up.JAVA_PACKAGES[0]]:
        assert package in dockerfile
    match = re.search(r"FROM python:(\d+)\.(\d+)-", dockerfile)
    assert match is not None
    assert (int(match[1]), int(match[2])) >= set_up.PYTHON_MIN
