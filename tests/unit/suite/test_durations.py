"""The record of durations orders the tests, and says which are slow."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.suite import durations, marks
from tests.suite.durations import SLOW_S, Durations

HERE = "tests/unit/suite/test_durations.py"
OTHER = "tests/unit/suite/test_workers.py"
GONE = "tests/unit/suite/test_of_no_file.py"


@pytest.fixture
def recorded(monkeypatch):
    """Puts a record in the place of the one that is checked in."""

    def put(groups=(), calls=()):
        record = Durations(dict(groups), dict(calls))
        monkeypatch.setattr(Durations, "load", lambda: record)

    return put


def test_workers_begin_with_the_longest_group(recorded):
    recorded({OTHER: 90.0, HERE: 0.5})
    items = [SimpleNamespace(nodeid=f"{file}::t") for file in (HERE, GONE, OTHER)]
    durations.pytest_collection_modifyitems(SimpleNamespace(workerinput={}), items)
    # What nobody has recorded may take long.
    assert [item.nodeid for item in items] == [f"{file}::t" for file in (OTHER, GONE, HERE)]


def test_a_test_that_was_recorded_as_slow_needs_the_mark(recorded, request):
    recorded(calls={request.node.nodeid: SLOW_S})
    durations.pytest_runtest_setup(request.node)
    recorded(calls={request.node.nodeid: SLOW_S + 1})
    with pytest.raises(pytest.fail.Exception, match="mark it slow"):
        durations.pytest_runtest_setup(request.node)
    request.node.add_marker(pytest.mark.slow("the record says so"))
    durations.pytest_runtest_setup(request.node)


@pytest.mark.parametrize("mark", ["slow", "nightly"])
def test_a_mark_that_costs_something_gives_its_reason(request, mark):
    request.node.add_marker(getattr(pytest.mark, mark))
    with pytest.raises(pytest.UsageError, match=f"the mark {mark} does not give its reason"):
        marks.pytest_collection_modifyitems([request.node])


def test_the_spark_session_is_for_the_folders_whose_workers_have_it():
    def item(nodeid):
        return SimpleNamespace(
            nodeid=nodeid,
            path=Path(nodeid.partition("::")[0]),
            fixturenames=["spark"],
            get_closest_marker=lambda _: None,
            add_marker=lambda _: None,
        )

    marks.pytest_collection_modifyitems([item("tests/sink/test_x.py::t")])
    with pytest.raises(pytest.UsageError, match="a Spark session for this file alone"):
        marks.pytest_collection_modifyitems([item("tests/property/test_x.py::t")])


def test_a_slow_test_has_the_slow_limit_unless_it_names_its_own(request):
    request.node.add_marker(pytest.mark.slow("for this test"))
    marks.pytest_collection_modifyitems([request.node])
    assert request.node.get_closest_marker("timeout").args == (marks.SLOW_LIMIT_S,)
    request.node.add_marker(pytest.mark.timeout(7), append=False)
    marks.pytest_collection_modifyitems([request.node])
    assert request.node.get_closest_marker("timeout").args == (7,)


def test_a_run_renews_the_files_that_ran_and_forgets_those_that_are_gone(tmp_path):
    record = Durations({HERE: 1.0, OTHER: 2.0, GONE: 3.0}, {f"{OTHER}::a": 2.0, f"{GONE}::a": 3.0})
    renewed = record.renewed({HERE: 4.04}, {f"{HERE}::b": 4.0, f"{HERE}::c": 0.2})
    renewed.write(tmp_path / "record.json")
    assert (tmp_path / "record.json").read_text().split() == (
        f'{{ "groups": {{ "{HERE}": 4.0, "{OTHER}": 2.0 }},'
        f' "calls": {{ "{HERE}::b": 4.0, "{OTHER}::a": 2.0 }} }}'
    ).split()
