"""The lake's S3 store: may we write, and does it refuse the second of two creates."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace.reading.store_failure import PATIENCE, store_failure
from tailrace_sink.errors import ConfigError, StoreUnsafe
from tailrace_sink.options.s3_options import S3Options, s3_address

if TYPE_CHECKING:
    from obstore.store import S3Store

_LAKE: Final = Judge(Part.LAKE)
_NOT_ACCEPTED: Final = ("AWS_ALLOW_HTTP", "AWS_IAM_ROLE_ARN")
"""Options of deltalake that obstore does not know: the first is a client option there."""
_BY_THE_SINK: Final = Fix("tailrace sink --once proves the store when it starts")


def look_at_store(lake: str, s3: S3Options) -> Iterator[Finding]:
    """Create one object twice under the condition that none has its name, and delete it."""
    if s3.role is not None:
        yield _LAKE.warning(
            lake,
            "not checked: obstore, which creates the object, cannot assume sink.s3.role",
            "a store that accepts a second create lets two sinks replace each other's commits",
            _BY_THE_SINK,
        )
        return
    try:
        from obstore.exceptions import AlreadyExistsError, BaseError
    except ImportError as error:
        yield _LAKE.warning(lake, f"not checked ({error})", "it may not be sound", _BY_THE_SINK)
        return
    doing = "reading its options"
    try:
        store = _open(lake, s3)
        doing = "creating an object"
        is_refused = _refuses_second(store, AlreadyExistsError)
    except (BaseError, ConfigError, OSError, ValueError) as error:
        failure = store_failure(lake, s3, str(error))
        problem = f"{doing} failed: " + str(error).split("\n", 1)[0]  # the rest is Rust's
        fix = "check sink.s3, and let its keys put, get, list and delete objects there"
        if failure is not None:
            problem, fix = failure.problem, failure.fix
        yield _LAKE.problem(lake, problem, "the sink does this at every start and cut", Fix(fix))
        return
    if is_refused:
        yield _LAKE.ok(lake, "the store refused the second create of an object, as it must")
        return
    unsafe = StoreUnsafe.accepts_a_second_create(lake, s3.endpoint)
    yield _LAKE.problem(lake, unsafe.problem, unsafe.effect, Fix(unsafe.fix))


def _open(lake: str, s3: S3Options) -> S3Store:
    from obstore.store import S3Store

    options = s3.storage_options().items()
    # obstore takes these names, but its type has others for the same options.
    config: Any = {name: text for name, text in options if name not in _NOT_ACCEPTED}
    return S3Store.from_url(
        s3_address(lake),
        config=config,
        client_options={
            "allow_http": True,
            "connect_timeout": PATIENCE["connect_timeout"],
            "timeout": PATIENCE["timeout"],
        },
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=10)},
    )


def _refuses_second(store: S3Store, taken: type[Exception]) -> bool:
    import obstore

    name = f"_tailrace/doctor-{uuid.uuid4().hex}"
    obstore.put(store, name, b"1", mode="create")
    try:
        obstore.put(store, name, b"2", mode="create")
    except taken:
        return True
    finally:
        obstore.delete(store, name)
    return False
