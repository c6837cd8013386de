"""docs/configuration.md, generated from the options' own declarations.

``python -m tailrace.reference.configuration docs/configuration.md`` writes it; a test compares.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tailrace.reference.option_examples import example
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_service.options.endpoint import EndpointOptions
from tailrace_sink.options.config import SinkConfig

SECTIONS: Final[dict[str, type[BaseModel]]] = {"publisher": PublisherConfig, "sink": SinkConfig}
_KINDS: Final[dict[Any, str]] = {
    bool: "true or false",
    int: "integer",
    float: "number",
    dict: "mapping",
    list: "list",
    Path: "path",
}

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
    parts = [HEAD]
    for section, model in SECTIONS.items():
        parts.append(f"\n## {section}\n\n{inspect.getdoc(model) or ''}\n")
        parts += [_option("###", *option) for option in _own(model, section)]
        for path, inner in _nested(model, section):
            parts.append(f"\n### {path}\n\n{inspect.getdoc(inner) or ''}\n")
            parts += [_option("####", *option) for option in _own(inner, path)]
    return "".join(parts)


def options() -> Iterator[tuple[str, FieldInfo]]:
    """List every option with its path."""
    for section, model in SECTIONS.items():
        for path, inner in ((section, model), *_nested(model, section)):
            yield from _own(inner, path)


def _own(model: type[BaseModel], path: str) -> Iterator[tuple[str, FieldInfo]]:
    return ((f"{path}.{name}", field) for name, field in _fields(model) if not _model_of(field))


def _nested(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in _fields(model):
        inner = _model_of(field)
        if inner is not None:
            yield f"{path}.{name}", inner
            yield from _nested(inner, f"{path}.{name}")


def _option(level: str, path: str, field: FieldInfo) -> str:
    """Return an option: a heading with its path, so with an anchor; value, text, example."""
    facts = ", ".join(filter(None, (_kind(field), _bounds(field), _default(field))))
    text = (field.description or "").replace("\n", " ")
    return f"\n{level} `{path}`\n\n*{facts}*\n\n{text}\n{_example(path)}"


def _example(path: str) -> str:
    value = example(path)
    if value is None:
        return ""
    for name in reversed(path.split(".")):
        value = {name: value}
    return f"\n```yaml\n{yaml.safe_dump(value, sort_keys=False)}```\n"


def _kind(field: FieldInfo) -> str:
    """Return what kind of value an option has, in YAML's words."""
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    is_union = get_origin(field.annotation) in (Union, UnionType)
    kind: Any = kinds[0] if is_union else field.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(str(member.value) for member in kind)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    return _KINDS.get(get_origin(kind) or kind, "text")


def _bounds(field: FieldInfo) -> str:
    """Return the lowest and the highest value that a number may have."""
    bounds = {type(item): item for item in field.metadata}
    low, high = bounds.get(Ge), bounds.get(Le)
    return f"{low.ge} to {high.le}" if isinstance(low, Ge) and isinstance(high, Le) else ""


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """List a daemon's own options before those of its bases; pydantic lists the bases first."""
    bases = model.__mro__ if issubclass(model, EndpointOptions) else ()
    own_first = [name for base in bases for name in inspect.get_annotations(base)]
    for name in own_first or model.model_fields:
        if name in model.model_fields:
            yield name, model.model_fields[name]


def _model_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the section that an option is; also one that may be left out."""
    annotation: Any = field.annotation
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(kind for kind in get_args(annotation) if kind is not NoneType)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return None


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None or value in ("", [], {}):
        return ""
    return f"default `{json.dumps(value, default=str)}`"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the page of all options.")
    parser.add_argument("page", type=Path, help="docs/configuration.md")
    parser.parse_args().page.write_text(document(), encoding="utf-8")
