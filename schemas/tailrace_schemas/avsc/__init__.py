"""The fixed records of the contract as .avsc files, for readers in any language."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def load(name: str) -> dict[str, Any]:
    """The schema ``<name>.avsc`` of this package."""
    schema: dict[str, Any] = json.loads(files(__name__).joinpath(f"{name}.avsc").read_text("utf-8"))
    return schema
