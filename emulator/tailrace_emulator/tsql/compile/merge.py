"""MERGE: one query per WHEN clause over source and target, all read before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.tsql.compile.change import assignments
from tailrace_emulator.tsql.compile.insert import InsertPlan, empty_plan, given_positions
from tailrace_emulator.tsql.compile.masks import refusing_masked
from tailrace_emulator.tsql.compile.named_targets import resolve_target
from tailrace_emulator.tsql.compile.output import OutputPlan, compile_output
from tailrace_emulator.tsql.compile.plan import Execution, Plan
from tailrace_emulator.tsql.compile.queries import QueryCompiler
from tailrace_emulator.tsql.compile.rows import RowProgram, row_program, stored
from tailrace_emulator.tsql.compile.scope import BoundSource, Scope
from tailrace_emulator.tsql.compile.targets import Target
from tailrace_emulator.tsql.syntax.nodes import DefaultMark

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compiler import Compilation
    from tailrace_emulator.tsql.syntax.statements import Merge, MergeClause


@dataclass(slots=True)
class ClausePlan:
    """One WHEN: ``plan`` yields rid and the new row, rid and the old row, or given values."""

    action: str
    plan: Plan
    insert: InsertPlan | None = None


@dataclass(slots=True)
class MergePlan:
    """A compiled MERGE."""

    target: Target
    clauses: tuple[ClausePlan, ...]
    program: RowProgram | None
    output: OutputPlan | None
    top: Plan | None = None
    """Yields how many rows TOP lets it change."""

    def run(self, execution: Execution) -> int:
        """Merges; returns how many rows. Called inside a statement, perhaps repeatedly."""
        connection = execution.workspace.connection
        left = self._limit(execution)
        found: list[list[tuple[Any, ...]]] = []
        touched: set[int] = set()
        for clause in self.clauses:
            text, bindings = clause.plan.prepare(execution)
            rows: list[Any] = connection.execute(text, bindings).fetchall()
            found.append(rows)
            if clause.action != "INSERT":
                for row in rows:
                    if row[0] in touched:
                        raise _matched_twice()
                    touched.add(row[0])
        if self.output is not None:
            self.output.begin()
        count = 0
        # Deletes and updates come first, so that a key they free can be inserted.
        order = {"DELETE": 0, "UPDATE": 1, "INSERT": 2}
        for clause, rows in sorted(
            zip(self.clauses, found, strict=True), key=lambda pair: order[pair[0].action]
        ):
            if left is not None:
                rows = rows[:left]  # noqa: PLW2901
                left -= len(rows)
            if rows:
                self._apply(execution, clause, rows)
                count += len(rows)
        return count

    def _limit(self, execution: Execution) -> int | None:
        """How many rows TOP and SET ROWCOUNT let it change; None for all."""
        limits = [execution.context.options.rowcount] * (execution.context.options.rowcount > 0)
        if self.top is not None:
            text, bindings = self.top.prepare(execution)
            rows: list[Any] = execution.workspace.connection.execute(text, bindings).fetchall()
            limits.append(rows[0][0])
        return min(limits) if limits else None

    def _apply(self, execution: Execution, clause: ClausePlan, rows: list[tuple[Any, ...]]) -> None:
        """Writes what one clause found."""
        context, target, output = execution.context, self.target, self.output
        width = len(target.table.columns)
        beside = len(output.other_texts) if output is not None else 0
        others = [row[len(row) - beside :] for row in rows]
        if beside:
            rows = [row[:-beside] for row in rows]
        if clause.insert is not None:
            clause.insert.output = output
            kept = output.collected if output is not None else []
            clause.insert.write(execution, [list(row) for row in rows], others)
            if output is not None:
                output.collected = kept + output.collected
            return
        old = {row[0]: row[-width:] for row in rows}
        if clause.action == "DELETE":
            target.delete(context, list(old))
            for image, more in zip(old.values(), others, strict=True):
                if output is not None:
                    output.add(execution, old=image, action="DELETE", others=more)
            return
        changes: list[tuple[int, Any]] = [(row[0], row[1 : width + 1]) for row in rows]
        if self.program is not None:
            program = self.program
            changes = [(rid, program.run(execution, row, "MERGE", target)) for rid, row in changes]
        target.update(context, changes)
        if output is not None:
            now = target.read(context, list(old))
            for (rid, image), more in zip(old.items(), others, strict=True):
                output.add(execution, new=now[rid], old=image, action="UPDATE", others=more)


class MergeCompiler:
    """Compiles MERGE."""

    def __init__(self, compilation: Compilation, node: Merge) -> None:
        self.compilation = compilation
        compilation.takes_ordered_sequences = False
        self.node = node
        self.compiler = QueryCompiler(compilation)

    def compile(self) -> MergePlan:
        """The plan."""
        node = self.node
        top = None
        if node.top is not None:
            if node.top.percent:
                raise not_supported("MERGE TOP (n) PERCENT")
            top = self.compilation.plan(f"SELECT {self.compiler.row_count(node.top.count)}")
        prefix = self.compiler.enter_common_tables(node.common_tables)
        target = resolve_target(self.compilation, node.target)
        if any(target.is_replaced(clause.action) for clause in node.clauses):
            raise not_supported("MERGE into a table with INSTEAD OF triggers")
        for action in dict.fromkeys(clause.action for clause in node.clauses):
            self.compilation.access.change(target, action)
        scope = Scope()
        target_text = self.compiler.sources.source(node.target, scope)
        bound = scope.sources[0]
        source_text = self.compiler.sources.source(node.source, scope)
        source_scope = Scope(sources=scope.sources[1:])
        target_scope = Scope(sources=[bound])
        condition = self.compiler.expressions.condition(node.condition, scope)
        matched = f"{target_text} JOIN ({source_text}) ON {condition}"
        if " JOIN " not in source_text:
            matched = f"{target_text} JOIN {source_text} ON {condition}"
        output = compile_output(
            self.compilation,
            node.output,
            target,
            ["inserted", "deleted"],
            source_scope.sources,
            optional=any(clause.action == "DELETE" for clause in node.clauses),
        )
        others = list(output.other_texts) if output is not None else []
        clauses: list[ClausePlan] = []
        before: dict[str, list[str]] = {"MATCHED": [], "TARGET": [], "SOURCE": []}
        for clause in node.clauses:
            scopes = {"MATCHED": scope, "TARGET": source_scope, "SOURCE": target_scope}
            clause_scope = scopes[clause.when]
            if clause.when == "MATCHED":
                origin, conditions = matched, []
            elif clause.when == "TARGET":
                origin = source_text
                conditions = [f"NOT EXISTS (SELECT 1 FROM {target_text} WHERE {condition})"]
            else:
                origin = target_text
                conditions = [f"NOT EXISTS (SELECT 1 FROM {source_text} WHERE {condition})"]
            conditions += [f"NOT coalesce({c}, 0)" for c in before[clause.when]]
            own = "1"
            if clause.condition is not None:
                own = self.compiler.expressions.condition(clause.condition, clause_scope)
                conditions.append(own)
            before[clause.when].append(own)
            beside = others if clause.when != "SOURCE" else ["NULL"] * len(others)
            clauses.append(
                self._clause(
                    clause, target, bound, clause_scope, prefix, origin, conditions, beside
                )
            )
        program = row_program(self.compilation, target)
        return MergePlan(target, tuple(clauses), program, output, top)

    def _clause(
        self,
        clause: MergeClause,
        target: Target,
        bound: BoundSource,
        scope: Scope,
        prefix: str,
        origin: str,
        conditions: list[str],
        others: list[str],
    ) -> ClausePlan:
        """The query of one WHEN."""
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        old = [f"{bound.key}.{c.sqlite_name}" for c in target.table.columns]
        insert = None
        if clause.action == "INSERT":
            insert, texts = self._insert(clause, target, scope)
        else:
            texts = [f"{bound.key}.rid"]
            if clause.action == "UPDATE":
                changed = assignments(
                    self.compiler.expressions, clause.assignments, target, bound, scope
                )
                texts += [changed.get(n) or text for n, text in enumerate(old)]
            texts += old
        texts += others
        text = f"{prefix}SELECT {', '.join(texts)} FROM {origin}{where}"
        return ClausePlan(clause.action, self.compilation.plan(text), insert)

    def _insert(
        self, clause: MergeClause, target: Target, scope: Scope
    ) -> tuple[InsertPlan, list[str]]:
        """The plan of an INSERT clause, and the texts of the values that it is given."""
        if clause.values is None:
            return empty_plan(self.compilation, target, ()), ["1"]
        given = given_positions(self.compilation, target, clause.columns)
        if len(given) != len(clause.values):
            raise messages.error(213)
        pairs = [
            (position, value)
            for position, value in zip(given, clause.values, strict=True)
            if not isinstance(value, DefaultMark)
        ]
        with refusing_masked(self.compilation, "VALUES"):
            texts = [
                stored(
                    self.compiler.expressions.value(value, scope),
                    target.table.columns[position],
                    target,
                    self.compilation.semantics,
                ).sql
                for position, value in pairs
            ]
        plan = empty_plan(self.compilation, target, tuple(position for position, _ in pairs))
        return plan, texts


def _matched_twice() -> SqlError:
    """8672."""
    return messages.error(8672)
