"""Names of a select to columns of its inputs.

A query with one input knows its columns by their bare names (and accepts `alias.column`); a query with several knows
them as `alias.column` and accepts a bare name that only one input has. Resolution happens on sqlglot's tree, because
there every word still has its place; afterwards a column node carries exactly the name the plan uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from penstock.errors import Place, SyntaxMistake, TypeMistake, UnknownColumn, suggestion
from penstock.expressions.nodes import Column, Expr
from penstock.expressions.parse import from_sqlglot
from penstock.expressions.typing import type_of
from penstock.expressions.user_functions import UserFunction
from penstock.language.syntax import Text, WindowClause
from penstock.model.schema import Field, Schema, sql_type
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.relational import Project


@dataclass(frozen=True)
class Input:
    """One source of FROM. `node` shows the plan's names, `bare` the names behind the alias, in the same order."""

    alias: str
    node: Node
    bare: Schema
    window: WindowClause | None
    place: Place | None

    def plan_name(self, bare: str) -> str:
        return self.node.schema.names[self.bare.index(bare)]


@dataclass(frozen=True)
class Scope:
    """What names mean inside one select."""

    inputs: tuple[Input, ...]
    text: Text
    #: Sources whose columns end with the ON of their semi or anti join, by alias in lower case.
    hidden: frozenset[str] = frozenset()
    #: Functions of the user, by name in lower case.
    functions: Mapping[str, UserFunction] = field(default_factory=dict)

    @property
    def is_qualified(self) -> bool:
        return len(self.inputs) > 1

    def find(self, column: exp.Column) -> str:
        """The plan's name of a column as written."""
        place = self.text.place_of(column.this)
        table = column.table
        candidates = [part for part in self.inputs if not table or part.alias.lower() == table.lower()]
        if not candidates or column.args.get("db"):
            raise self._unknown_alias(column)
        holders = [part for part in candidates if column.name in part.bare]
        if len(holders) > 1:
            names = ", ".join(f"{part.alias}.{part.bare[column.name].name}" for part in holders)
            raise SyntaxMistake(f"column '{column.name}' is ambiguous; write one of {names}", place)
        if not holders:
            raise self._unknown(column.name, candidates, place)
        return holders[0].plan_name(column.name)

    def _unknown_alias(self, column: exp.Column) -> SyntaxMistake:
        written = ".".join(part.name for part in column.parts[:-1])
        place = self.text.place_of(column.parts[0])
        if written.lower() in self.hidden:
            text = f"'{written}' is joined by SEMI or ANTI JOIN: its columns are known in the ON of that join only"
            return SyntaxMistake(text, place)
        return SyntaxMistake(f"FROM has no source '{written}'; {suggestion(written, [part.alias for part in self.inputs])}", place)

    def _unknown(self, name: str, parts: Iterable[Input], place: Place | None) -> UnknownColumn:
        listed = list(parts)
        if len(listed) == 1:
            return UnknownColumn(listed[0].bare.owner, name, listed[0].bare.names, place)
        names = [f"{part.alias}.{column}" for part in listed for column in part.bare.names]
        return UnknownColumn("the query", name, names, place)

    def knows(self, column: exp.Column) -> bool:
        return bool(column.table) or any(column.name in part.bare for part in self.inputs)

    def resolved(self, node: exp.Expr, aliases: Mapping[str, exp.Expr] | None = None) -> exp.Expr:
        """A copy of the tree in which every column carries the plan's name (positions stay).

        `aliases` are names of the select list, for the clauses that may use them; a column of the inputs comes first.
        """
        tree = node.copy()
        for column in list(tree.find_all(exp.Column)):
            if isinstance(column.this, exp.Star):
                continue
            named_item = (aliases or {}).get(column.name.lower()) if not self.knows(column) else None
            replacement = named_item.copy() if named_item is not None else named(self.find(column), column)
            if column is tree:
                tree = replacement
            else:
                column.replace(replacement)
        return tree

    def expression(self, node: exp.Expr) -> Expr:
        """The expression a tree without aggregates stands for."""
        return self.read(self.resolved(node))

    def read(self, resolved: exp.Expr) -> Expr:
        return from_sqlglot(resolved, self.text.source, self.text.sql, self.functions)

    def stars(self, node: exp.Expr) -> list[str] | None:
        """Plan names that `*` or `alias.*` stands for; None for anything else."""
        if isinstance(node, exp.Star):
            return self._but(node)
        if not (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            return None
        found = [part for part in self.inputs if part.alias.lower() == node.table.lower()]
        if not found:
            raise self._unknown_alias(node)
        return replace(self, inputs=(found[0],))._but(node.this)

    def _but(self, star: exp.Star) -> list[str]:
        """All columns but those of EXCEPT (…)."""
        left = [name for part in self.inputs for name in part.node.schema.names]
        for column in star.args.get("except_") or ():
            name = self.find(column if isinstance(column, exp.Column) else exp.Column(this=column))
            if name not in left:
                text = f"'{column.name}' stands twice in EXCEPT; keep one"
                raise SyntaxMistake(text, self.text.place_of(column))
            left.remove(name)
        return left

    def bare_name(self, plan_name: str) -> str:
        """What a column is called when it leaves the query without an alias."""
        for part in self.inputs:
            if plan_name in part.node.schema:
                return part.bare.names[part.node.schema.index(plan_name)]
        return plan_name

    def input_of(self, plan_name: str) -> int:
        """Which input a column comes from."""
        return next(index for index, part in enumerate(self.inputs) if plan_name in part.node.schema)


def renamed(source: Input, tree: exp.Expr, several: bool, text: Text) -> Input:
    """The source under the columns that stand behind its alias, as in `bid b(item, price)`."""
    alias = tree.args.get("alias")
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    if not columns:
        return source
    if len(columns) != len(source.bare):
        known = ", ".join(source.bare.names)
        message = f"'{source.alias}' has {len(source.bare)} columns ({known}) and is given {len(columns)} names; name all of them"
        raise SyntaxMistake(message, text.place_of(columns[0]))
    names = [column.name for column in columns]
    for position, name in enumerate(names):
        if name.lower() in (each.lower() for each in names[:position]):
            message = f"'{name}' stands twice behind '{source.alias}'; give each column its own name"
            raise SyntaxMistake(message, text.place_of(columns[position]))
    fields = tuple(Field(name, item.type, item.nullable) for name, item in zip(names, source.bare, strict=True))
    shown = [f"{source.alias}.{name}" if several else name for name in names]
    pairs = tuple((new, Column(old)) for new, old in zip(shown, source.node.schema.names, strict=True))
    return replace(source, node=Project(source.node, pairs), bare=Schema(fields, source.bare.owner))


def named(name: str, like: exp.Expr | None = None) -> exp.Column:
    """A column node for a name of the plan, at the place of `like`. The name is one quoted word, dots included."""
    identifier = exp.to_identifier(name, quoted=True)
    origin = like.this if isinstance(like, exp.Column) else like
    if origin is not None:
        identifier.update_positions(origin)
    return exp.Column(this=identifier)


def check_condition(expression: Expr, schema: Schema) -> None:
    """Refuse a condition that is no condition."""
    kind = type_of(expression, schema)
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise TypeMistake(f"a condition must be true or false; '{expression}' is {sql_type(kind)}", expression.place)
