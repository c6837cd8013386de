"""Which worker takes which tests."""

import pytest

from tests.suite.groups import group_of
from tests.suite.workers import next_group

SINK = "tests/sink/intake/test_log.py::test_sinks_that_start_together"
PIPELINE = "tests/end_to_end/test_pipeline.py::t"
WIRE = "emulator/tests/wire/test_server.py::test_one[a::b]"


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        (WIRE, "emulator/tests/wire/test_server.py"),
        (SINK, "spark tests/sink/intake/test_log.py"),
        (PIPELINE, "spark tests/end_to_end/test_pipeline.py"),
        ("emulator/tests/clients/test_jdbc.py::t", "emulator/tests/clients/test_jdbc.py"),
    ],
)
def test_a_file_is_a_group_and_its_name_says_whether_it_needs_the_spark_session(nodeid, group):
    assert group_of(nodeid) == group


@pytest.mark.parametrize(
    ("groups", "with_spark", "taken"),
    [
        (["spark a", "b", "spark c"], True, "spark a"),
        (["spark a", "b"], False, "b"),
        (["b", "spark c"], True, "spark c"),
        (["b", "d"], True, "b"),
        (["spark a"], False, None),
        ([], True, None),
    ],
)
def test_only_workers_with_the_session_take_what_needs_it_and_before_the_rest(
    groups, with_spark, taken
):
    assert next_group(groups, with_spark=with_spark) == taken
