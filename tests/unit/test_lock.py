"""The lock names everything that is installed, by version and hash, from the index alone."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PIN = re.compile(r"(?m)^([A-Za-z0-9._-]+)==([^\s;\\]+)([^\n]*)((?:\n    --hash=[^\n]*)*)")
_OWN = {"tailrace", "tailrace-emulator"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, list[str]]:
    """Hashes by name."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return {
        normal(name): re.findall(r"--hash=(\S+)", hashes)
        for name, _, _, hashes in _PIN.findall(text)
    }


def test_each_line_is_a_version_with_hashes_or_belongs_to_one():
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for line in text.splitlines():
        assert not line or line.startswith(("#", "    ")) or _PIN.match(line), line
    assert not re.search(r"(?m)^(-e|git\+|https?:|--index|--extra-index|--trusted)", text)
    for name, hashes in locked().items():
        assert hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), name


def test_every_dependency_that_is_named_is_locked():
    named: set[str] = set()
    for file in ("pyproject.toml", "emulator/pyproject.toml"):
        project = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["project"]
        extras = project.get("optional-dependencies", {})
        chosen = (extras[extra] for extra in extras if extra != "docs")
        for requirement in [*project["dependencies"], *(r for some in chosen for r in some)]:
            named.add(normal(re.split(r"[\[=<>!~; ]", requirement, maxsplit=1)[0]))
    assert named - _OWN <= locked().keys()


def test_the_tests_that_the_security_page_names_are_there():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", page))
    assert len(files) > 8
    assert sorted(f for f in files if not (ROOT / f).is_file()) == []
