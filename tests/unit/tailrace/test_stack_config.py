"""The configuration that ``tailrace up`` writes: a first status --check can see the daemons."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tailrace.local.stack import stack_config
from tailrace.settings.load import load
from tailrace.web.daemons import address_of


def test_the_written_configuration_says_where_both_daemons_answer(tmp_path: Path):
    secret = tmp_path / "password"
    secret.write_text("secret")
    server = {"host": "127.0.0.1", "port": 1433, "password_file": str(secret)}
    addresses = {"bootstrap_servers": "b:9092", "registry_url": "http://r", "sqlserver": server}
    (tmp_path / "stack.json").write_text(json.dumps(addresses))
    file = tmp_path / "tailrace.yaml"
    file.write_text(yaml.safe_dump(stack_config(tmp_path, prefix="local", database="Shop")))
    settings = load(file, {})
    settings.check()
    answer = {address_of(settings.publisher()), address_of(settings.sink())}
    assert None not in answer
    assert len(answer) == 2, "each has a port of its own"
