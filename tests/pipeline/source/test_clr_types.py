"""hierarchyid, geometry and geography, from the driver to the topic."""

from __future__ import annotations

import pytest

from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

_CLR_TYPE = -151
"""SQL_SS_UDT."""

NODE = b"\x5a\xc0"
"""/1/1/"""
MOVED = b"\x68"
"""/2/"""
PLACE = bytes.fromhex("00000000010c" + "000000000000f03f" + "0000000000000040")
"""POINT (1 2)"""
CITY = bytes.fromhex("e6100000010c" + "0000000000804740" + "0000000000805ec0")
"""POINT (-122 47)"""


def test_clr_types_arrive_as_their_bytes(pipe: Pipe):
    source = pipe.source
    source.connection.add_output_converter(_CLR_TYPE, bytes)  # pyodbc knows nothing of it
    source.execute(
        "CREATE TABLE dbo.Address (id int PRIMARY KEY, node hierarchyid, place geometry,"
        " city geography, note int)",
        "INSERT dbo.Address VALUES (1, '/1/1/', 'POINT (1 2)', 'POINT (-122 47)', 1)",
        "INSERT dbo.Address VALUES (2, NULL, NULL, NULL, 1)",
    )
    source.enable("Address")
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        source.execute(
            "INSERT dbo.Address VALUES (3, 0x5AC0, 'POINT (1 2)', 'POINT (-122 47)', 1)",
            "UPDATE dbo.Address SET note = 2 WHERE id = 3",
            "UPDATE dbo.Address SET node = '/2/', place = NULL WHERE id = 1",
        )
        publisher.until(pipe.is_caught_up, "the changes are out")

    pipe.assert_exactly_once("Address")
    state = pipe.topics.state(source.name, "Address", "id")
    values = {n: (r["node"], r["place"], r["city"], r["note"]) for n, r in state.items()}
    assert values == {
        1: (MOVED, None, CITY, 1),
        2: (None, None, None, 1),
        3: (NODE, PLACE, CITY, 2),
    }
    envelopes = [event.envelope or {} for event in pipe.topics.changes(source.name, "Address")]
    # Two keys may be in two partitions, whose order says nothing.
    updates = {e["after"]["id"]: e for e in envelopes if e["op"] == "u"}
    noted, moved = updates[3], updates[1]
    assert (noted["before"]["node"], moved["before"]["node"]) == (NODE, NODE)
    # As large values are: what an update leaves as it was is not in its before image.
    assert (noted["before"]["place"], noted["before"]["city"]) == (None, None)
    assert (noted["after"]["place"], noted["after"]["city"]) == (PLACE, CITY)
    assert (moved["before"]["place"], moved["before"]["city"]) == (PLACE, None)
    assert (moved["after"]["place"], moved["after"]["city"]) == (None, CITY)
    assert (noted["source"]["unavailable"], moved["source"]["unavailable"]) == ([], [])
