"""TLS with a chain of root, intermediate and server certificate, to every part that has it."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from emulator.tests.fix_emulator import EmulatorProcess
from tailrace.doctor.access_rules import Identities
from tailrace.doctor.brokers import look_at_brokers
from tailrace.doctor.findings import Level
from tailrace.doctor.large_values import LargeValues
from tailrace.web.run import WebOptions, serving
from tailrace_compose.images import health
from tailrace_publisher.errors import ConfigError, EncryptionRefused
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.connection.connection import OdbcConnection
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.registry.access import open_registry
from tailrace_service.registry.client import RegistryUnavailable
from tailrace_service.registry.options import RegistryConfig
from tests.fix_certificates import KEY_PASSWORD, Chain, Issued, door
from tests.fix_kafka import SharedBroker
from tests.pipeline.commands import assert_carries
from tests.pipeline.conftest import Pipe
from tests.pipeline.operate.test_endpoint import url_of
from tests.pipeline.operate.test_web import settings_of
from tests.pipeline.running import Running

BAD = {
    "elsewhere": (lambda chain: (chain.elsewhere, chain.root), "is for another name"),
    "expired": (lambda chain: (chain.expired, chain.root), "has expired"),
    "stranger": (lambda chain: (chain.server, chain.stranger), "an authority that is not trusted"),
}
Case = tuple[Callable[[Chain], tuple[Issued, Path]], str]


@pytest.fixture(params=list(BAD.values()), ids=list(BAD))
def bad(request: pytest.FixtureRequest, chain: Chain) -> Iterator[tuple[int, Path, str]]:
    """A port with a certificate that must not be accepted, whom the client trusts, and why not."""
    choose, words = request.param
    issued, trusted = choose(chain)
    with door(issued) as port:
        yield port, trusted, words


@pytest.mark.kafka
def test_kafka_with_certificates_on_both_sides(
    pipe: Pipe, shared_broker: SharedBroker, chain: Chain, tmp_path: Path
):
    secret = tmp_path / "of-the-key"
    secret.write_text(f"{KEY_PASSWORD}\n")
    kafka = {
        "bootstrap": shared_broker.tls_bootstrap,
        "extra": {
            "security.protocol": "SSL",
            "ssl.ca.location": str(chain.root),
            "ssl.certificate.location": str(chain.client.chain),
            "ssl.key.location": str(chain.client_key),
        },
        "extra_files": {"ssl.key.password": str(secret)},
    }
    assert_carries(pipe, tmp_path, kafka)


def test_a_broker_s_certificate_is_refused_with_its_reason(bad: tuple[int, Path, str]):
    port, trusted, words = bad
    config = KafkaConfig.model_validate(
        {
            "bootstrap": f"127.0.0.1:{port}",
            "extra": {"security.protocol": "ssl", "ssl.ca.location": str(trusted)},
            "start_timeout_s": 1,
        }
    )
    (told,) = look_at_brokers(config, TopicNames("p"), [], Identities("t"), LargeValues())
    assert (told.level, words in told.text) == (Level.PROBLEM, True), told.text
    assert f"127.0.0.1:{port}" in told.text


def test_a_registry_s_certificate_is_refused_with_its_reason(bad: tuple[int, Path, str]):
    port, trusted, words = bad
    config = RegistryConfig(url=f"https://127.0.0.1:{port}", ca_file=trusted)
    with (
        open_registry(config) as registry,
        pytest.raises(RegistryUnavailable, match=words) as error,
    ):
        registry.subjects()
    assert "\n" not in str(error.value)


def source_of(port: int, password: str, **further: object) -> SourceConfig:
    options = {
        "host": "localhost",  # the driver compares names, not addresses
        "port": port,
        "database": "master",
        "user": "sa",
        "password": password,
        "login_timeout_s": 5,
    }
    return SourceConfig.model_validate(options | further)


def test_sql_server_s_certificate_is_refused_with_its_reason(
    bad: tuple[int, Path, str], monkeypatch: pytest.MonkeyPatch
):
    port, trusted, words = bad
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with pytest.raises(EncryptionRefused, match=words) as error:
        OdbcConnection(source_of(port, "never-sent-1", encrypt="strict"))
    assert "never-sent-1" not in str(error.value)


@pytest.mark.parametrize("encrypt", ["yes", "strict"])
def test_sql_server_with_a_chain(
    certified: EmulatorProcess, chain: Chain, monkeypatch: pytest.MonkeyPatch, encrypt: str
):
    monkeypatch.setenv("SSL_CERT_FILE", str(chain.root))
    with OdbcConnection(source_of(certified.port, certified.password, encrypt=encrypt)) as source:
        assert source.query("SELECT DB_NAME()")[0][0] == "master"
    monkeypatch.setenv("SSL_CERT_FILE", str(chain.stranger))
    with pytest.raises(EncryptionRefused, match="an authority that is not trusted"):
        OdbcConnection(source_of(certified.port, certified.password, encrypt=encrypt))


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory, chain: Chain) -> Iterator[EmulatorProcess]:
    """The embedded server with a certificate of the chain."""
    server = EmulatorProcess(tmp_path_factory.mktemp("certified"))
    shutil.copy(chain.server.chain, server.data_dir / "certificate.pem")
    shutil.copy(chain.server.key, server.data_dir / "private_key.pem")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.kafka
def test_the_endpoint_and_the_page_with_a_chain(
    pipe: Pipe, chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pipe.source.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY)")
    pipe.source.enable("orders")
    shown = {"http_certificate": str(chain.server.chain), "http_key": str(chain.server.key)}
    page = WebOptions(certificate=chain.server.both, every_s=0.2)
    trusted = ssl.create_default_context(cafile=chain.root)
    with Running(pipe.config(metrics_port=0, **shown)) as publisher:
        publisher.until(pipe.is_caught_up, "it publishes")
        url = url_of(publisher)
        assert httpx.get(f"{url}/ready", verify=trusted, trust_env=False).text == "publishing\n"
        with pytest.raises(httpx.HTTPError):
            httpx.get(url.replace("https:", "http:") + "/health", trust_env=False)
        port = url.rpartition(":")[2]
        environ = {"METRICS_PORT": port, "HTTP_CERTIFICATE": shown["http_certificate"]}
        health.check_publisher({f"TAILRACE__PUBLISHER__{k}": v for k, v in environ.items()})
        for authority, words in ((chain.root, None), (chain.stranger, "authority that is not")):
            monkeypatch.setenv("SSL_CERT_FILE", str(authority))
            options = replace(page, publisher_urls=(url,))
            with serving(settings_of(pipe, tmp_path), options) as address:
                seen = httpx.get(
                    f"{address}model.json", verify=trusted, trust_env=False, timeout=30
                )
            told = seen.json()["problems"].get("publisher")
            assert told is None if words is None else words in told
    for options, words in (
        ({"http_key": str(chain.server.key)}, "a key needs its certificate"),
        ({**shown, "http_key": str(chain.client_key)}, "do not go together"),
        ({"http_certificate": "/no/such/file"}, "there is no file /no/such/file"),
    ):
        with Running(pipe.config(metrics_port=0, **options)) as publisher:
            error = publisher.ended()
        assert isinstance(error, ConfigError)
        assert words in str(error)
