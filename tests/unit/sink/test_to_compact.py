"""Which files a run of compaction chooses."""

from __future__ import annotations

from tailrace_sink.files.to_compact import Choice, DataFile, chosen, files_within

SMALL = 16


def test_a_compaction_takes_the_smallest_files_up_to_a_bound():
    assert files_within([1, 2, 3, 10], 6) == 3
    assert files_within([1, 2, 3, 10], 100) == 4
    assert files_within([7], 6) == 0


def test_a_run_takes_the_smallest_files_up_to_its_bound():
    files = [DataFile(size, 0.0) for size in (9, 3, 15, 1, 2, 400)]
    assert chosen(files, SMALL, 2, 15) == Choice(10, 1.0, 4)
    assert chosen(files, SMALL, 2, 1000) == Choice(16, 1.0, 5)
    assert chosen(files, SMALL, 5, 15) is None, "they are too few"
    assert chosen(files, SMALL, 2, 2) is None


def test_a_run_takes_the_files_with_the_most_deleted_rows_up_to_its_bound():
    files = [DataFile(100, 0.4), DataFile(100, 0.9), DataFile(100, 0.6), DataFile(100, 0.2)]
    choice = chosen(files, SMALL, 2, 200)
    assert choice is not None
    assert 0.4 < choice.deleted_above < 0.6
    assert (choice.below, choice.files) == (0, 2)
    alone = chosen(files, SMALL, 2, 50)
    assert alone is not None
    assert 0.6 < alone.deleted_above < 0.9, "a file that is larger than the bound goes alone"
    assert alone.files == 1


def test_a_small_file_with_deleted_rows_counts_once():
    files = [DataFile(1, 0.9), DataFile(2, 0.0), DataFile(100, 0.5)]
    assert chosen(files, SMALL, 2, 10) == Choice(3, 1.0, 2)
    assert chosen([], SMALL, 2, 10) is None
