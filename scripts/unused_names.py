"""List public names that nothing but tests uses: `python scripts/unused_names.py`; exits with 1 if there are any.

A name counts as used where it, or a text that is exactly it, stands anywhere outside of its own definition. Identifiers are
compared, not what they refer to: what is found is certainly unused, and some of what is unused is not found. The manual shows
names to their users: what stands there behind a dot counts as used.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Where users of names are; tests are none.
_USERS = ("penstock", "benchmarks", "docs", "scripts")
#: Not looked at: what tests are written with.
_FOR_TESTS = ROOT / "penstock" / "testing"
#: Methods that Spark, the command line's library and the SQL parser's library call.
_CALLED_BY_OTHERS = {
    "commit", "getDefaultReadLimit", "handleInputRows", "initialOffset", "invoke", "latestOffset", "prepareForTriggerAvailableNow",
    "streamReader", "validate_expression",
}  # fmt: skip
#: Modules whose names may wait for a user, and what for.
_AHEAD = {
    ROOT / "penstock" / "model" / "qos.py": "quality of service is specified before schedulers and shedders read it",
    ROOT / "penstock" / "model" / "scoped.py": "what a scope means; tests judge generators by it, heralds will be read by it",
    ROOT / "penstock" / "experiments" / "joins" / "xjoin_pjoin" / "join.py": "a published join does what its paper says",
}
#: Decorators that do not hand the function to somebody.
_PLAIN = {"property", "cached_property", "staticmethod", "classmethod", "cache", "contextmanager", "dataclass", "overload"}
_WORD = re.compile(r"\w+")
_BEHIND_DOT = re.compile(r"\.(\w+)")


def defined(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Public functions, classes, methods and constants of a module."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not is_handed_over(node):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            yield from ((item.name, item) for item in node.body if isinstance(item, ast.FunctionDef))
        if isinstance(node, ast.Assign):
            yield from ((target.id, node) for target in node.targets if isinstance(target, ast.Name))


def is_handed_over(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a decorator may have kept it: a command, a loop, a registered type."""
    return any(used(decorator).keys().isdisjoint(_PLAIN) for decorator in node.decorator_list)


def used(tree: ast.AST) -> Counter[str]:
    """How often each identifier stands in a piece of code."""
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found[node.id] += 1
        elif isinstance(node, ast.Attribute):
            found[node.attr] += 1
        elif isinstance(node, ast.alias):
            found[node.name] += 1
        elif isinstance(node, ast.keyword) and node.arg:
            found[node.arg] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found[node.value] += 1
    return found


def unused() -> list[str]:
    trees = {path: ast.parse(path.read_text()) for folder in _USERS for path in sorted((ROOT / folder).rglob("*.py"))}
    everywhere: Counter[str] = Counter()
    for tree in trees.values():
        everywhere.update(used(tree))
    for text in (ROOT / "penstock").rglob("*.sql"):
        everywhere.update(_WORD.findall(text.read_text()))
    for text in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        everywhere.update(_BEHIND_DOT.findall(text.read_text()))
    found = []
    for path, tree in trees.items():
        if not path.is_relative_to(ROOT / "penstock") or path.is_relative_to(_FOR_TESTS) or path in _AHEAD:
            continue
        for name, node in defined(tree):
            is_private = name.startswith("_") or name in _CALLED_BY_OTHERS
            # An assignment uses its own target, and a definition may call itself.
            if not is_private and everywhere[name] <= used(node)[name]:
                found.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)} {name}")
    return found


if __name__ == "__main__":
    names = unused()
    print("\n".join(names) or "every public name is used")
    sys.exit(bool(names))
