"""docs/configuration.md, generated from the options' own declarations.

``python -m tailrace.reference.configuration docs/configuration.md`` writes it; a test compares.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from inspect import get_annotations
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tailrace_service.options.endpoint import EndpointOptions

HEAD = """# Configuration

One YAML file with the sections `publisher` and `sink`; `kafka`, `registry`, `prefix` and `tracing`
at its top are defaults of both. The environment overrides the file
(`TAILRACE__PUBLISHER__SOURCE__PASSWORD`: the path of an option in capitals, parts joined by two
underscores), and `--set publisher.source.port=1444` overrides both. Names with dots are one part of
a path: `--set kafka.extra.sasl.username=cdc`, and in the environment underscores stand for the dots
of Kafka's names: `TAILRACE__KAFKA__EXTRA__SASL_PASSWORD`. Every wrong option is reported at once,
with its value, its bounds and what would be right.

Several databases are published by one process when they have a section `databases`: what each is
called, and what is different for it, in the same sections:

```yaml
prefix: shop
kafka: {bootstrap: "kafka:9092"}
registry: {url: "http://registry:8081"}
publisher: {source: {host: sql1, user: cdc, password_file: /run/secrets/cdc}, metrics_port: 9101}
sink: {lake: /lake}
databases:
  Orders:                  # prefix shop.Orders, lake /lake/Orders
  Crm:
    prefix: crm            # one of its own
    publisher: {source: {host: sql2}, tables: {exclude: [dbo.audit]}}
    sink: {lake: /crm}
```

Mappings are merged, of everything else the database's own counts. Without options of its own it has
its name as `source.database`, `<prefix>.<name>` as prefix and `<lake>/<name>` as lake. The options
of the endpoint (`metrics_port`, `metrics_host`, `http_*`) are for all of them.
`TAILRACE__DATABASES__CRM__PUBLISHER__SOURCE__PASSWORD` is one database's. Every other command is of
one database: `--database Crm` says which ([scaling.md](scaling.md)).

This page is generated: `python -m tailrace.reference.configuration docs/configuration.md`.
"""


def document() -> str:
    """The whole page."""
    from tailrace_publisher.options.publisher_config import PublisherConfig
    from tailrace_sink.options.config import SinkConfig

    parts = [HEAD]
    for section, model in (("publisher", PublisherConfig), ("sink", SinkConfig)):
        parts.append(f"\n## {section}\n\n{model.__doc__ or ''}\n")
        parts.extend(_options(model, section))
    return "".join(parts)


def _options(model: type[BaseModel], path: str) -> Iterator[str]:
    nested: list[tuple[str, type[BaseModel]]] = []
    yield "\n| option | default | what it does |\n|---|---|---|\n"
    for name, field in _fields(model):
        inner = _model_of(field)
        if inner is not None:
            nested.append((f"{path}.{name}", inner))
            continue
        yield f"| `{name}` | {_default(field)} | {_cell(field.description or '')} |\n"
    for inner_path, inner in nested:
        yield f"\n### {inner_path}\n\n{inner.__doc__ or ''}\n"
        yield from _options(inner, inner_path)


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """List a daemon's own options before those of its bases; pydantic lists the bases first."""
    bases = model.__mro__ if issubclass(model, EndpointOptions) else ()
    own_first = [name for base in bases for name in get_annotations(base)]
    for name in own_first or model.model_fields:
        if name in model.model_fields:
            yield name, model.model_fields[name]


def _model_of(field: FieldInfo) -> type[BaseModel] | None:
    annotation = field.annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return None


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None or value in ("", [], {}):
        return ""
    return f"`{json.dumps(value, default=str)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the page of all options.")
    parser.add_argument("page", type=Path, help="docs/configuration.md")
    parser.parse_args().page.write_text(document(), encoding="utf-8")
