"""Further keywords of the connection string, as the Microsoft driver takes and refuses them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from emulator.tests.fix_sqlserver import SourceServer
from tailrace_publisher.errors import SourceError
from tailrace_publisher.source.blocks.block_paths import BlockPaths
from tailrace_publisher.source.connection.connection import OdbcConnection
from tests.pipeline.source_database import SourceDatabase, source_options


@pytest.fixture
def source(source_server: SourceServer) -> SourceDatabase:
    return SourceDatabase(source_server, f"odbc_{uuid.uuid4().hex}", cdc=False)


def test_keywords_reach_driver_and_server(source: SourceDatabase):
    odbc = {"MultiSubnetFailover": "Yes", "WSID": "machine-7", "PacketSize": "8000"}
    with OdbcConnection(source_options(source, odbc=odbc)) as connection:
        assert connection.query("SELECT HOST_NAME()")[0][0] == "machine-7"
    assert BlockPaths(source_options(source, odbc=odbc)) is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"odbc": {"MultiSubnetFailover": "perhaps"}}, "MultiSubnetFailover"),
        ({"odbc": {"Authentication": "Nonsense"}}, "Authentication"),
        (
            {"odbc": {"Trusted_Connection": "Yes"}, "user": None, "password": None},
            "SSPI|Kerberos|GSS|credentials",
        ),
    ],
)
def test_the_driver_refuses_in_its_own_words(
    source: SourceDatabase, options: dict[str, Any], told: str
):
    with pytest.raises(SourceError, match=told) as error:
        OdbcConnection(source_options(source, **options))
    assert source.server.password not in str(error.value)
