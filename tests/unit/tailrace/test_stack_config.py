"""The configuration that ``tailrace up`` writes: a first status --check can see the daemons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tailrace.local.stack import stack_config
from tailrace.settings.load import load
from tailrace.web.daemons import address_of

SERVER = {"host": "127.0.0.1", "port": 1433, "password_file": "/password"}
ADDRESSES = {"bootstrap_servers": "b:9092", "registry_url": "http://r", "sqlserver": SERVER}


def test_the_lake_is_in_the_stacks_store(tmp_path: Path):
    options = {"endpoint": "http://127.0.0.1:9", "access_key": "a", "secret_key_file": "/s"}
    addresses = ADDRESSES | {"object_store": {"bucket": "lake", "options": options}}
    (tmp_path / "stack.json").write_text(json.dumps(addresses))
    sink: Any = stack_config(tmp_path, prefix="local", database="Shop")["sink"]
    assert (sink["lake"], sink["s3"]) == ("s3://lake/local", options)


def test_the_written_configuration_says_where_both_daemons_answer(tmp_path: Path):
    secret = tmp_path / "password"
    secret.write_text("secret")
    server = SERVER | {"password_file": str(secret)}
    (tmp_path / "stack.json").write_text(json.dumps(ADDRESSES | {"sqlserver": server}))
    file = tmp_path / "tailrace.yaml"
    file.write_text(yaml.safe_dump(stack_config(tmp_path, prefix="local", database="Shop")))
    settings = load(file, {})
    settings.check()
    answer = {address_of(settings.publisher()), address_of(settings.sink())}
    assert None not in answer
    assert len(answer) == 2, "each has a port of its own"
