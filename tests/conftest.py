"""Loads the fixtures of tests/fix_*.py, one file for each part of the stack."""

from pathlib import Path

pytest_plugins = sorted(f"tests.{path.stem}" for path in Path(__file__).parent.glob("fix_*.py"))
