"""Kafka: may the publisher use its transactional ids, and join its group.

A trial is not possible: taking an id would end the publisher that uses it, and joining the group
would take databases from its members. So doctor reads the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_schemas.records.transactional_ids import transactional_id

if TYPE_CHECKING:
    from tailrace_publisher.options.kafka import KafkaConfig
    from tailrace_publisher.options.publisher_config import PublisherConfig

_JUDGE: Final = Judge(Part.KAFKA)
_EVERYBODY: Final = "User:*"
_ANYBODY: Any = None
"""Any principal, or any host, in a filter of rules; the client's types do not know it."""


@dataclass(frozen=True, slots=True)
class Identities:
    """Under which names the publisher of a configuration comes.

    Attributes:
        group: of the fleet; None of a publisher that joins none.
    """

    transactional_id: str
    group: str | None = None

    @classmethod
    def of(cls, config: PublisherConfig) -> Self:
        """Those of a configuration."""
        name = transactional_id(config.prefix, config.source.database)
        return cls(name, config.fleet_group if config.fleet.join else None)


@dataclass(frozen=True, slots=True)
class _Use:
    """What is done under a kind of name.

    Attributes:
        subject: what the kind is called.
        kind: as the brokers know it.
        operations: of which the first is the one that counts.
        effect: what is not possible without it.
    """

    subject: str
    kind: ResourceType
    option: str
    operations: tuple[AclOperation, ...]
    effect: str

    @property
    def operation(self) -> str:
        return _title(self.operations[0])


_TRANSACTIONS: Final = _Use(
    "transactional id",
    ResourceType.TRANSACTIONAL_ID,
    "--transactional-id",
    (AclOperation.WRITE, AclOperation.DESCRIBE),
    "the publisher cannot begin a transaction",
)
_GROUP: Final = _Use(
    "consumer group",
    ResourceType.GROUP,
    "--group",
    (AclOperation.READ,),
    "the publisher is given no databases",
)


def look_at_access_rules(
    admin: AdminClient, config: KafkaConfig, identities: Identities
) -> Iterator[Finding]:
    """Judge the rules for the names under which the publisher comes.

    Args:
        admin: a client of the brokers.
        config: where they are, and as whom.
    """
    yield _judged(admin, config, _TRANSACTIONS, identities.transactional_id)
    if identities.group is not None:
        yield _judged(admin, config, _GROUP, identities.group)


def _judged(admin: AdminClient, config: KafkaConfig, use: _Use, name: str) -> Finding:
    principal = _principal(config)
    fix = Fix(
        f"kafka-acls --add --allow-principal {principal or 'User:<name>'} {use.option} {name}"
        + "".join(f" --operation {_title(operation)}" for operation in use.operations)
    )
    try:
        rules = _rules(admin, use, name, config.start_timeout_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.SECURITY_DISABLED:
            return _JUDGE.ok(use.subject, f"{name}: the brokers have no access rules")
        return _JUDGE.warning(
            use.subject,
            f"whether {name} may be used is not known: the rules may not be read"
            f" ({error.args[0].str()})",
            f"without {use.operation} on it {use.effect}",
            Fix(f"{fix.text}; to let doctor check it, allow Describe on the cluster"),
        )
    ours = {_EVERYBODY} if principal is None else {_EVERYBODY, principal}
    denied = [r for r in rules if r.permission_type is AclPermissionType.DENY]
    allowed = [r for r in rules if r.permission_type is AclPermissionType.ALLOW]
    if _names(denied) & ours:
        return _JUDGE.problem(
            use.subject,
            f"{name}: {use.operation} is denied to {', '.join(sorted(_names(denied) & ours))}",
            use.effect,
            Fix("kafka-acls --remove --deny-principal ..., which takes precedence over any allow"),
        )
    if _names(allowed) & ours:
        return _JUDGE.ok(use.subject, f"{name} may be used")
    if allowed and principal is None:
        return _JUDGE.warning(
            use.subject,
            f"{name} is allowed to {', '.join(sorted(_names(allowed)))}; as whom the publisher"
            " comes is not in its options",
            f"without {use.operation} on it {use.effect}",
            fix,
        )
    if rules:
        return _JUDGE.problem(
            use.subject,
            f"{name}: {use.operation} is allowed to nobody that the publisher is"
            + ("" if principal is None else f" ({principal})"),
            f"{use.effect}, unless it is a super user",
            fix,
        )
    if _may_everything(admin, config.start_timeout_s):
        return _JUDGE.ok(use.subject, f"{name}: no rule speaks of it, and none is needed")
    return _JUDGE.warning(
        use.subject,
        f"{name}: no rule speaks of it",
        f"unless the brokers have allow.everyone.if.no.acl.found=true, {use.effect}",
        fix,
    )


def _rules(admin: AdminClient, use: _Use, name: str, timeout_s: float) -> list[Any]:
    """The rules about what is done under a name, by it or by its beginning."""
    wanted = AclBindingFilter(
        use.kind,
        name,
        ResourcePatternType.MATCH,
        _ANYBODY,
        _ANYBODY,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    needed = {use.operations[0], AclOperation.ALL}
    found = admin.describe_acls(wanted, request_timeout=timeout_s).result(timeout_s)
    return [rule for rule in found if rule.operation in needed]


def _title(operation: AclOperation) -> str:
    return str(operation.name).title()


def _names(rules: Iterable[Any]) -> set[str]:
    return {str(rule.principal) for rule in rules}


def _principal(config: KafkaConfig) -> str | None:
    """Return the principal of the publisher; None if a certificate or a ticket decides it."""
    options = config.librdkafka_options()
    user = options.get("sasl.username")
    if user:
        return f"User:{user}"
    protocol = options.get("security.protocol", "plaintext").casefold()
    return "User:ANONYMOUS" if protocol in {"plaintext", "ssl"} and not _has_cert(options) else None


def _has_cert(options: Mapping[str, str]) -> bool:
    return any(name.startswith(("ssl.certificate", "ssl.keystore")) for name in options)


def _may_everything(admin: AdminClient, timeout_s: float) -> bool:
    """Whether it may alter the cluster: as a super user, or where no rule means no limit.

    The option allow.everyone.if.no.acl.found cannot be asked of the brokers.
    """
    asked = admin.describe_cluster(include_authorized_operations=True, request_timeout=timeout_s)
    try:
        allowed = asked.result(timeout_s).authorized_operations or []
    except (KafkaException, TimeoutError):
        return False
    return {AclOperation.ALTER, AclOperation.CLUSTER_ACTION} <= set(allowed)
