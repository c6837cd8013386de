"""SASL/OAUTHBEARER: tokens of a function of the user's, and of an OpenID provider."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.doctor.access_rules import Identities
from tailrace.doctor.brokers import look_at_brokers
from tailrace.doctor.findings import Level
from tailrace.doctor.large_values import LargeValues
from tailrace.reading.topics import existing_data_topics
from tailrace_publisher.daemon.process.fleet_group import FleetGroup, member_options
from tailrace_publisher.errors import ConfigError, TokenUnavailable
from tailrace_publisher.options.kafka import KafkaConfig
from tailrace_publisher.options.oauth_tokens import OAuthTokens
from tailrace_schemas.topics.topic_names import TopicNames
from tests.fix_kafka import SharedBroker
from tests.pipeline.commands import assert_carries
from tests.pipeline.conftest import Pipe
from tests.pipeline.deliver import oauth_functions
from tests.pipeline.running import wait_until

HERE = "tests.pipeline.deliver.oauth_functions"


def kafka_of(bootstrap: str, function: str = "token", **extra: str) -> dict[str, Any]:
    return {
        "bootstrap": bootstrap,
        "oauth_callback": f"{HERE}:{function}",
        "extra": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            **extra,
        },
        "start_timeout_s": 5,
    }


@pytest.mark.slow("the publisher and each command log in with tokens")
@pytest.mark.kafka
def test_the_publisher_and_its_commands_come_with_the_function_s_token(
    pipe: Pipe, shared_broker: SharedBroker, tmp_path: Path
):
    kafka = kafka_of(shared_broker.oauth_bootstrap, **{"sasl.oauthbearer.config": "scope=cdc"})
    assert_carries(pipe, tmp_path, kafka)
    found = list(
        look_at_brokers(
            KafkaConfig.model_validate(kafka), pipe.topics.names, [], Identities("t"), LargeValues()
        )
    )
    assert "brokers" in {finding.subject for finding in found if finding.level is Level.OK}
    assert "scope=cdc" in oauth_functions.asked


@pytest.mark.kafka
def test_a_member_of_a_group_comes_with_the_function_s_token(shared_broker: SharedBroker):
    topic = "of-members-with-tokens"
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    kafka = KafkaConfig.model_validate(kafka_of(shared_broker.oauth_bootstrap))
    member = Consumer(member_options(kafka.connection(), topic, 6))
    taken: list[str] = []
    group = FleetGroup(member, [topic], taken.extend, taken.extend)

    def has_a_partition() -> bool:
        group.look(0.1)
        return taken == [topic]

    try:
        wait_until(has_a_partition, "it is let in")
    finally:
        group.close()


@pytest.mark.kafka
def test_librdkafka_fetches_tokens_of_an_openid_provider_itself(
    shared_broker: SharedBroker, provider: str
):
    kafka = kafka_of(
        shared_broker.oauth_bootstrap,
        **{
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "tailrace",
            "sasl.oauthbearer.client.secret": "Marked",
            "sasl.oauthbearer.token.endpoint.url": provider,
        },
    )
    config = KafkaConfig.model_validate(kafka | {"oauth_callback": None})
    extra = config.librdkafka_options()
    assert existing_data_topics(config.bootstrap, TopicNames("nobody-s"), extra) == {}


@pytest.mark.parametrize(
    ("function", "error", "told"),
    [
        (f"{HERE}:raising", TokenUnavailable, "raised PermissionError: the token service says no"),
        (
            f"{HERE}:a_text",
            ConfigError,
            "returned a value of str. Fix: return \\(token, expires_at\\)",
        ),
        (f"{HERE}:expired", ConfigError, "returned a token that has expired"),
        (f"{HERE}:in_milliseconds", ConfigError, "milliseconds, perhaps"),
        (f"{HERE}:bytes_for_text", ConfigError, "a token that is no text"),
        (f"{HERE}:odd_extensions", ConfigError, "extensions that are not a dictionary of texts"),
        (f"{HERE}:nothing", ConfigError, "has no function nothing"),
        (f"{HERE}:constant", ConfigError, "has no function constant"),
        ("no.such.module:token", ConfigError, "module no.such.module cannot be imported"),
    ],
)
def test_a_function_that_is_of_no_use_is_told_by_name(
    function: str, error: type[Exception], told: str
):
    config = KafkaConfig.model_validate(kafka_of("127.0.0.1:1") | {"oauth_callback": function})
    with pytest.raises(error, match=told) as raised:
        config.connection()
    assert function in str(raised.value)
    assert "eyJ" not in str(raised.value)  # how a JWT begins
    (finding,) = look_at_brokers(config, TopicNames("p"), [], Identities("t"), LargeValues())
    assert (finding.level, finding.subject) == (Level.PROBLEM, "kafka.oauth_callback")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"oauth_callback": "no_function"}, "pattern"),
        (
            {"extra": {}},
            "oauth_callback needs sasl.mechanism: OAUTHBEARER. Fix: set it in extra",
        ),
        (
            {"extra": {"sasl.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.method": "OIDC"}},
            "one of oauth_callback and sasl.oauthbearer.method",
        ),
    ],
)
def test_options_that_contradict_a_function(change: dict[str, Any], told: str):
    with pytest.raises(ValueError, match=told):
        KafkaConfig.model_validate(kafka_of("127.0.0.1:1") | change)


def test_clients_share_a_token_until_half_of_its_time_is_over():
    oauth_functions.asked.clear()
    tokens = OAuthTokens(f"{HERE}:token", "of-the-hour")
    assert tokens("") == tokens("")
    assert oauth_functions.asked == ["of-the-hour"]
    tokens = OAuthTokens(f"{HERE}:short_lived", "of-the-moment")
    first = tokens("")
    wait_until(lambda: tokens("") != first, "there is another token")


@pytest.fixture
def provider() -> Iterator[str]:
    """The token endpoint of an OpenID provider that trusts everybody."""

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            token, _ = oauth_functions.unsigned()
            body = json.dumps({"access_token": token, "token_type": "Bearer"}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is to be told."""

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()
