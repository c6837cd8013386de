"""The sink's consumers log in to brokers with tokens (SASL/OAUTHBEARER)."""

from __future__ import annotations

import pytest

from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.fix_kafka import SharedBroker
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def test_every_client_of_the_sink_comes_with_a_token(
    source: Source, lake: Lake, shared_broker: SharedBroker
):
    """Bounds, progress and events are read by clients of their own; the tokens have no signature,
    which Kafka's own module makes where nobody says where to get others."""
    table = source.table("t", column(1, "id", "int", key=1))
    source.commit(lambda t: t.insert(table, id=1))
    source.publish()
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_sub="sink";',
    }
    lake.options["kafka"] |= {"bootstrap": shared_broker.oauth_bootstrap, "extra": login}
    assert lake.catch_up() == 1
    assert lake.cut() == source.cut()
