"""The Java client's connection in options of librdkafka, for tasks that read the brokers.

Sources: https://kafka.apache.org/documentation/#consumerconfigs and
https://github.com/confluentinc/librdkafka/blob/v2.16.0/CONFIGURATION.md
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SAME: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "client.id",
        "client.rack",
        "client.dns.lookup",
        "ssl.endpoint.identification.algorithm",
    }
)
_PEM: Final = "PEM"
_STORES: Final = ("ssl.truststore.type", "ssl.keystore.type")
_PEM_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
    "ssl.key.password": ("ssl.key.password",),
}
_JAAS: Final = "sasl.jaas.config"
_LOGIN: Final = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(?:plain\.Plain|scram\.Scram)LoginModule\s+required"
    r"((?:\s+\w+\s*=\s*\"[^\"\\]*\")+)\s*;\s*"
)
_LOGIN_PART: Final = re.compile(r"(\w+)\s*=\s*\"([^\"\\]*)\"")
_TUNING: Final = frozenset(
    {
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "max.partition.fetch.bytes",
        "max.poll.records",
        "metadata.max.age.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
    }
)
"""Options of speed and patience, which are not carried over."""


class NotInLibrdkafka(Exception):
    """An option of the Java client that has no known equal in librdkafka, with its name."""


def librdkafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the same connection and login for librdkafka.

    Args:
        options: of the Java client, without its prefix ``kafka.``.

    Raises:
        NotInLibrdkafka: an option, or its value, has no known equal.
    """
    found: dict[str, str] = {}
    for name, value in options.items():
        if name in _SAME:
            found[name] = value
        elif name == _JAAS:
            found |= _login(value)
        elif name in _STORES:
            if value != _PEM:
                raise NotInLibrdkafka(f"{name} other than PEM")
        elif name in _PEM_OPTIONS:
            kind = f"{name.rpartition('store.')[0]}store.type"
            if kind in _STORES and options.get(kind) != _PEM:
                raise NotInLibrdkafka(f"{name} of a store other than PEM")
            found |= dict.fromkeys(_PEM_OPTIONS[name], value)
        elif name not in _TUNING:
            raise NotInLibrdkafka(name)
    return found


def _login(jaas: str) -> dict[str, str]:
    """Return user and password of a login by PLAIN or SCRAM."""
    module = _LOGIN.fullmatch(jaas)
    parts = dict(_LOGIN_PART.findall(module[1])) if module else {}
    if parts.keys() != {"username", "password"}:
        raise NotInLibrdkafka(f"{_JAAS} other than user and password by PLAIN or SCRAM")
    return {"sasl.username": parts["username"], "sasl.password": parts["password"]}
