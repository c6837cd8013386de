"""A connection of the Java client, in librdkafka's options."""

from __future__ import annotations

import pytest

from tailrace_sink.options.librdkafka_options import NotInLibrdkafka, librdkafka_options

SECURITY = "org.apache.kafka.common.security"


def test_a_login_by_user_and_password():
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            f'{SECURITY}.scram.ScramLoginModule required\n  username="sink" password="a;b\'c";'
        ),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
    }
    assert librdkafka_options(options) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "sink",
        "sasl.password": "a;b'c",
        "ssl.ca.location": "/etc/ca.pem",
    }


def test_a_certificate_of_the_client():
    options = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/etc/client.pem",
        "ssl.key.password": "secret",
    }
    assert librdkafka_options(options) == {
        "security.protocol": "SSL",
        "ssl.certificate.location": "/etc/client.pem",
        "ssl.key.location": "/etc/client.pem",
        "ssl.key.password": "secret",
    }


def test_options_of_speed_are_left_out():
    assert librdkafka_options({"fetch.max.bytes": "1000", "client.rack": "a"}) == {
        "client.rack": "a"
    }


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ssl.truststore.type": "JKS"}, "ssl.truststore.type"),
        ({"ssl.truststore.location": "/etc/trust.jks"}, "ssl.truststore.location"),
        ({"sasl.login.callback.handler.class": "x"}, "sasl.login.callback.handler.class"),
        (
            {
                "sasl.jaas.config": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required"
                ' clientId="c";'
            },
            "sasl.jaas.config",
        ),
        (
            {"sasl.jaas.config": f'{SECURITY}.plain.PlainLoginModule required username="u";'},
            "sasl.jaas.config",
        ),
        (
            {
                "sasl.jaas.config": f"{SECURITY}.plain.PlainLoginModule required"
                ' username="u" password="a\\"b";'
            },
            "sasl.jaas.config",
        ),
    ],
)
def test_what_has_no_known_equal_is_named_without_its_value(options: dict[str, str], named: str):
    with pytest.raises(NotInLibrdkafka) as error:
        librdkafka_options(options)
    assert named in str(error.value)
    assert not any(value in str(error.value) for value in options.values() if value != "x")
