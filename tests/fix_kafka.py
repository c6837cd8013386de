"""Fixtures of the local stack's Kafka broker and schema registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tailrace_compose.local.broker import KafkaBroker, Member
from tailrace_compose.local.registry import SchemaRegistry
from tailrace_emulator.testing.process import free_port
from tests.fix_certificates import Chain

# Whoever may do what is up to access control lists; what none speaks of is open to all.
_GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
# Transactions that are too old are aborted in rounds: every second instead of every ten.
_ABORTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}


@dataclass(frozen=True)
class SharedBroker:
    """Where a broker listens: plainly, with TLS and certificates of clients, with tokens."""

    bootstrap: str
    tls_bootstrap: str
    oauth_bootstrap: str


def _listeners(
    plain: int, tls: int, oauth: int, controller: int, chain: Chain
) -> Mapping[str, str]:
    """Settings of a broker with two more listeners.

    One shows and wants certificates, one wants tokens: JWTs without a signature, which is what
    Kafka has where nobody says who signs them.
    """
    own = "listener.name.tls.ssl"
    addresses = f"PLAINTEXT://127.0.0.1:{plain},TLS://127.0.0.1:{tls},OAUTH://127.0.0.1:{oauth}"
    return {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,TLS:SSL,OAUTH:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
            ' unsecuredLoginStringClaim_sub="broker";'
        ),
        f"{own}.keystore.type": "PEM",
        f"{own}.keystore.location": str(chain.server.both),
        f"{own}.truststore.type": "PEM",
        f"{own}.truststore.location": str(chain.root),
        f"{own}.client.auth": "required",
    }


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory, chain: Chain) -> Iterator[SharedBroker]:
    """A broker that the whole session shares."""
    member, plain, tls, oauth = Member.alone(), free_port(), free_port(), free_port()
    controller = member.controllers[member.node_id]
    broker = KafkaBroker(
        tmp_path_factory.mktemp("kafka"),
        port=plain,
        is_short_lived=True,
        settings={**_GUARDED, **_ABORTS, **_listeners(plain, tls, oauth, controller, chain)},
        member=member,
    )
    try:
        yield SharedBroker(broker.start(), f"127.0.0.1:{tls}", f"127.0.0.1:{oauth}")
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def kafka(shared_broker: SharedBroker) -> str:
    """Bootstrap servers of a broker that the whole session shares: name topics after the test."""
    return shared_broker.bootstrap


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the Confluent API of a registry that the whole session shares."""
    schema_registry = SchemaRegistry(tmp_path_factory.mktemp("registry"))
    try:
        yield schema_registry.start()
    finally:
        schema_registry.stop()


@pytest.fixture
def kafka_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A started broker of the test's own, which it may stop, kill and start again."""
    broker = KafkaBroker(tmp_path / "kafka", is_short_lived=True)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def schema_registry(tmp_path: Path) -> Iterator[SchemaRegistry]:
    """A started registry of the test's own, which it may stop, kill and start again."""
    server = SchemaRegistry(tmp_path / "registry")
    server.start()
    try:
        yield server
    finally:
        server.kill()
