"""Functions of the catalog in a WHERE clause: one call a row must not walk the catalog."""

import cProfile
import pstats

from tailrace_emulator.catalog import objects

TABLES = 60


def test_a_catalog_function_for_each_row_walks_the_catalog_once(sql):
    for number in range(TABLES):
        sql(f"CREATE TABLE t{number} (id int NOT NULL CONSTRAINT pk{number} PRIMARY KEY)")
    profile = cProfile.Profile()
    profile.enable()
    outcome = sql("SELECT COUNT(*) FROM sys.objects WHERE OBJECT_NAME(object_id) LIKE 'pk%'")
    profile.disable()
    assert outcome.rows == [(TABLES,)]
    function = objects.table_constraints
    entries = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    walks = sum(
        counts[1]
        for (path, _, name), counts in entries.items()
        if name == function.__name__ and path.endswith("objects.py")
    )
    # The view itself walks the tables, and the index of objects once more; a generator is entered
    # again for each constraint that it yields.
    assert walks <= 6 * TABLES
