"""compose.yaml is sound, describes the stack that runs locally, and gives no password away."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tailrace.cli.root import cli
from tailrace.settings.load import load
from tailrace.verify.metrics import VerifyMetrics
from tailrace_compose.images.base import OFFICIAL
from tailrace_compose.images.build import IMAGES
from tailrace_compose.local import jars
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_sink.watch.metrics import SinkMetrics

FOLDER = Path(__file__).parents[3] / "compose"
OURS = ("emulator", "provision", "publisher", "sink", "verify", "web")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((FOLDER / "compose.yaml").read_text()))


@pytest.fixture(scope="module")
def host_network() -> dict[str, Any]:
    # Docker Compose's own tag is not YAML's: an empty list stands for what it does.
    text = re.sub(r" !reset \S+", " []", (FOLDER / "host-network.yaml").read_text())
    return dict(yaml.safe_load(text))


def default(image: str) -> str:
    """The image where no variable names another."""
    match = re.fullmatch(r"\$\{\w+:-(.+)\}", image)
    return match[1] if match else image


def test_versions_are_those_of_the_local_stack(compose):
    images = {name: default(service["image"]) for name, service in compose["services"].items()}
    assert images["kafka"] == f"apache/kafka:{jars.version_of('kafka', 'kafka_2.13')}"
    registry = jars.version_of("registry", "apicurio-registry-app")
    assert images["registry"] == f"apicurio/apicurio-registry:{registry}"


def test_our_images_are_those_that_make_images_builds(compose):
    built = {image.tag: image for image in IMAGES.values()}
    for name in OURS:
        service = compose["services"][name]
        image = built[service["image"]]
        assert service["build"]["dockerfile"] == f"compose/images/{image.dockerfile}"
        assert service["build"].get("target") == image.target
        assert default(service["build"]["args"]["BASE_IMAGE"]) == OFFICIAL


def test_everything_that_is_named_is_declared(compose):
    services = compose["services"]
    for service in services.values():
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        assert set(service.get("depends_on", {})) <= set(services)
        configs = {config["source"] for config in service.get("configs", [])}
        assert configs <= set(compose["configs"])
        volumes = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert volumes <= set(compose["volumes"])
        for needed, how in service.get("depends_on", {}).items():
            assert how["condition"] == "service_healthy"
            assert "healthcheck" in services[needed] or services[needed]["image"].startswith(
                "tailrace-"
            )
            # What only one of the profiles starts cannot be required.
            assert how.get("required", True) is ("profiles" not in services[needed])
    for config in compose["configs"].values():
        assert (FOLDER / config["file"]).is_file()


def test_the_two_sources_answer_alike_and_never_together(compose):
    sources = [compose["services"][name] for name in ("sqlserver", "emulator")]
    assert [source["profiles"] for source in sources] == [["sqlserver"], ["emulator"]]
    for source in sources:
        assert source["networks"]["default"]["aliases"] == ["source"]
        assert source["environment"]["MSSQL_AGENT_ENABLED"] == "true"


def test_ports_are_open_on_this_machine_only(compose):
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_service_has_bounds_and_is_restarted(compose):
    for service in compose["services"].values():
        limits = service["deploy"]["resources"]["limits"]
        assert limits.keys() == {"memory", "pids"}
        assert service["restart"] == "unless-stopped"


def test_our_containers_may_write_only_where_they_are_told(compose):
    for name in OURS:
        service = compose["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "user" not in service  # the images' own, which is not root


def test_passwords_come_from_files_only(compose):
    assert all(set(secret) == {"file"} for secret in compose["secrets"].values())
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|TOKEN", name.upper()):
                assert re.search(r"_FILE$", name), name
                assert value.startswith("/run/secrets/")
    command = compose["services"]["sqlserver"]["command"][0]
    assert re.findall(r"PASSWORD=(\S+)", command) == ['"$$(cat']


def test_the_terms_of_sql_server_are_not_accepted_for_anybody(compose):
    assert compose["services"]["sqlserver"]["environment"]["ACCEPT_EULA"] == "${ACCEPT_EULA:-no}"


def test_configuration_is_accepted_and_points_at_the_services(compose):
    environment = {
        "TAILRACE__PUBLISHER__SOURCE__DATABASE": "Shop",
        "TAILRACE__PUBLISHER__SOURCE__USER": "tailrace",
    }
    assert environment.keys() == compose["services"]["publisher"]["environment"].keys()
    settings = load(FOLDER / "tailrace.yaml", environment)
    settings.check()
    publisher = settings.publisher()
    aliases = compose["services"]["sqlserver"]["networks"]["default"]["aliases"]
    assert publisher.source.host in aliases
    assert (
        publisher.kafka.bootstrap
        in (compose["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"])
    )
    secret = Path(str(publisher.source.password_file)).name
    assert secret in compose["services"]["publisher"]["secrets"]


def test_the_page_finds_both_daemons_with_their_token(compose):
    services = compose["services"]
    web = services["web"]
    environment = {
        name: default(str(value))
        for name, value in web["environment"].items()
        if name.startswith("TAILRACE__")
    }
    settings = load(FOLDER / "tailrace.yaml", environment)
    tokens = {settings.publisher().http_token_file, settings.sink().http_token_file}
    assert {str(token) for token in tokens} == {web["environment"]["TAILRACE_WEB_TOKEN_FILE"]}
    (token,) = {Path(str(token)).name for token in tokens}
    assert all(token in services[name]["secrets"] for name in ("publisher", "sink", "web"))
    assert f"secrets/{token}" in (FOLDER / "prepare.sh").read_text()
    name, *arguments = web["command"]
    found = cli.commands[name].make_context(name, arguments).params
    urls = {"publisher": found["publisher_urls"][0], "sink": found["sink_url"]}
    for name, url in urls.items():
        port = urlsplit(url).port
        dockerfile = (FOLDER / "images" / IMAGES[name].dockerfile).read_text()
        assert f"TAILRACE__{name.upper()}__METRICS_PORT={port}" in dockerfile
    assert f"127.0.0.1:{found['port']}:{found['port']}" in web["ports"]


@pytest.fixture(scope="module")
def schema() -> Any:
    """The schema of the Compose Specification, as check-jsonschema carries it."""
    from check_jsonschema.builtin_schemas import get_builtin_schema
    from jsonschema.validators import validator_for

    found = get_builtin_schema("vendor.compose-spec")
    return validator_for(found)(found)


def test_the_schema_of_the_compose_specification_accepts_it(schema, compose, host_network):
    assert not [f"{e.json_path}: {e.message}" for e in schema.iter_errors(compose)]
    assert not [f"{e.json_path}: {e.message}" for e in schema.iter_errors(host_network)]


def test_the_schema_refuses_what_the_specification_does_not_know(schema, compose):
    broken = json.loads(json.dumps(compose))  # a copy without the file's aliases
    broken["services"]["sink"]["deploy"]["resources"]["limits"]["memry"] = "3g"
    (error,) = schema.iter_errors(broken)
    assert error.json_path == "$.services.sink.deploy.resources.limits"
    assert "memry" in error.message


def docker_compose() -> list[str]:
    """The command of Docker Compose 2: the client's plugin, or the command of its own."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            asked = [*command, "version", "--short"]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            if done.returncode == 0 and not done.stdout.startswith("1."):
                return command
    pytest.skip("no Docker Compose 2 here (Debian 13: docker-compose); its schema was checked")


@pytest.mark.parametrize("profile", ["sqlserver", "emulator"])
def test_docker_compose_itself_accepts_it(profile):
    command = [*docker_compose(), "--profile", profile, "--file", str(FOLDER / "compose.yaml")]
    for more in ([], ["--file", str(FOLDER / "host-network.yaml")]):
        done = subprocess.run(
            [*command, *more, "config", "--format", "json"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        services = json.loads(done.stdout)["services"]
        assert {"sqlserver", "emulator"} & set(services) == {profile}
        if more:
            # With ports or networks left over the engine would refuse a shared network.
            assert {service["network_mode"] for service in services.values()} == {"host"}
            assert not [s for s in services.values() if s.get("ports") or s.get("networks")]


def test_a_shared_network_is_told_to_every_service(compose, host_network):
    services = host_network["services"]
    assert services.keys() == compose["services"].keys()
    for name, service in services.items():
        assert service["network_mode"] == "host"
        assert ("ports" in service) is ("ports" in compose["services"][name])
        assert ("networks" in service) is ("networks" in compose["services"][name])
        names = {host.split(":")[0] for host in service["extra_hosts"]}
        assert names == {
            *("source", "kafka", "registry", "publisher", "sink", "verify", "prometheus")
        }
    # Everything listens on this machine only.
    listeners = services["kafka"]["environment"]["KAFKA_LISTENERS"].split(",")
    assert all("://127.0.0.1:" in listener for listener in listeners)
    told = {name for name, s in services.items() if "127.0.0.1" in str(s.get("environment"))}
    assert told | {"prometheus", "provision"} == services.keys()


def exported() -> set[str]:
    """Names of the series that publisher, sink and verify give Prometheus."""
    names = {"up"}
    for registry in (Metrics().registry, SinkMetrics().registry, VerifyMetrics().registry):
        for metric in registry.collect():
            suffixes = {
                "counter": ("_total",),
                "histogram": ("_bucket", "_count", "_sum"),
            }.get(metric.type, ("",))
            names |= {metric.name + suffix for suffix in suffixes}
    return names


def family(name: str) -> str:
    """Name of the figure that a series is of."""
    return re.sub(r"_(bucket|count|sum|total)$", "", name)


def families() -> set[str]:
    return {family(name) for name in exported() - {"up"}}


def expressions() -> dict[str, str]:
    """Every PromQL expression of the alert rules and the dashboard, by where it stands."""
    rules = yaml.safe_load((FOLDER / "monitoring" / "alerts.yml").read_text())
    found = {rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"]}
    dashboard = json.loads((FOLDER / "monitoring" / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            found[f"{panel['title']} {target['refId']}"] = target["expr"]
    return found


@pytest.mark.parametrize("place", sorted(expressions()))
def test_alerts_and_dashboard_ask_for_what_is_exported(place):
    asked = set(re.findall(r"\b(?:tailrace_\w+|up)\b", expressions()[place]))
    assert asked
    assert asked <= exported()


def test_every_exported_figure_is_shown_or_watched():
    asked = {name for text in expressions().values() for name in re.findall(r"tailrace_\w+", text)}
    assert families() == {family(name) for name in asked}


RUNBOOKS = FOLDER.parent / "docs" / "runbooks"


def alerts() -> dict[str, Any]:
    rules = yaml.safe_load((FOLDER / "monitoring" / "alerts.yml").read_text())
    return {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}


@pytest.mark.parametrize("alert", sorted(alerts()))
def test_every_alert_has_a_page_that_says_what_to_do(alert):
    assert alerts()[alert]["annotations"]["runbook_url"] == f"docs/runbooks/{alert}.md"
    page = (RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    assert headings == [alert, "What it means", "How to see it", "What to do"]
    assert {family(name) for name in re.findall(r"\btailrace_\w+", page)} <= families()
    for link in re.findall(r"\]\(([^)#]+)\)", page):
        assert (RUNBOOKS / link).is_file(), link


def test_every_page_has_its_alert():
    assert {page.stem for page in RUNBOOKS.glob("*.md")} - {"index"} == set(alerts())


def test_prometheus_asks_the_services_at_the_ports_of_their_images(compose):
    scraped = yaml.safe_load((FOLDER / "monitoring" / "prometheus.yml").read_text())
    targets = {
        job["job_name"]: job["static_configs"][0]["targets"] for job in scraped["scrape_configs"]
    }
    (verify,) = targets.pop("verify")
    name, *arguments = compose["services"]["verify"]["command"]
    found = cli.commands[name].make_context(name, arguments).params
    assert (verify, found["continuous"]) == (f"verify:{found['metrics_port']}", True)
    for name, (target,) in targets.items():
        host, port = target.split(":")
        assert host == name
        dockerfile = (FOLDER / "images" / IMAGES[name].dockerfile).read_text()
        assert f"TAILRACE__{name.upper()}__METRICS_PORT={port}" in dockerfile
        assert f"EXPOSE {port}" in dockerfile
