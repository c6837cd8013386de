"""Which ODBC driver is taken."""

import platform

import pytest

from tailrace_emulator.testing import odbc
from tailrace_emulator.testing.errors import DriverMissing


def test_the_newest_microsoft_driver_of_the_system_wins():
    names = [
        "PostgreSQL",
        "ODBC Driver 17 for SQL Server",
        "ODBC Driver 18 for SQL Server",
        "FreeTDS",
    ]
    assert odbc.newest(names) == "ODBC Driver 18 for SQL Server"
    assert odbc.newest(["FreeTDS"]) is None


def test_the_packaged_driver_is_a_file_for_this_machine(monkeypatch):
    monkeypatch.setattr(odbc, "newest", lambda names: None)
    path = odbc.packaged_library()
    assert path is not None
    assert path.is_file()
    assert odbc.driver() == f"{{{path}}}"


@pytest.mark.parametrize(
    ("release", "folder"),
    [
        ({"ID": "debian"}, "debian_ubuntu"),
        ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "debian_ubuntu"),
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "rhel"),
        ({"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, "suse"),
        ({"ID": "unheard-of"}, "debian_ubuntu"),
    ],
)
def test_the_build_for_the_distribution_is_taken(monkeypatch, release, folder):
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    assert odbc._distribution() == folder


def test_no_driver_at_all_is_named_with_the_fix(monkeypatch):
    monkeypatch.setattr(odbc, "newest", lambda names: None)
    monkeypatch.setattr(odbc, "packaged_library", lambda: None)
    with pytest.raises(DriverMissing, match="make setup"):
        odbc.driver()
