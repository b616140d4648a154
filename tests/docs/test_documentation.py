"""What the documentation shows is true: its statements parse, its examples run, its links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from penstock.expressions.aggregates import AGGREGATES
from penstock.expressions.nodes import FUNCTIONS
from penstock.language.application import parse_application
from penstock.lowering.sheddable import entries_with_loss
from penstock.lowering.stages import build_job
from penstock.model.hint_options import HINTS, Option
from penstock.model.schema import SQL_TYPES
from penstock.plan.analysis.safety import check
from penstock.plan.catalog import Catalog

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGE = ROOT / "docs" / "language.md"
NOW_US = 1_777_000_000_000_000

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
_KEY = re.compile(r"\[([a-z]+(?:19|20)\d\d)\]")


def blocks(page: Path, kind: str) -> list[str]:
    return [text for found, text in _BLOCK.findall(page.read_text()) if found == kind]


def read(page: Path, text: str) -> Catalog:
    """A block that declares no stream reads those of the page's first block."""
    own = "CREATE STREAM" in text
    return parse_application(text if own else blocks(page, "sql")[0] + text, page.stem, now=NOW_US)


def anchors(page: Path) -> set[str]:
    """Headings as GitHub names them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


STATEMENTS = [(page, text) for page in PAGES for text in blocks(page, "sql")]


@pytest.mark.parametrize(("page", "text"), STATEMENTS, ids=[f"{page.stem}-{n}" for n, (page, _) in enumerate(STATEMENTS)])
def test_statements_of_the_documentation_are_legal(page: Path, text: str) -> None:
    catalog = read(page, text)
    assert check(catalog, with_remedies=False).application == page.stem
    if any(query.contract is not None for query in catalog.queries.values()):
        assert entries_with_loss(build_job(catalog, 2)) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_the_documentation_print_what_they_show(page: Path) -> None:
    text = "\n".join(block for block in blocks(page, "python") if ">>>" in block)
    example = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_the_documentation_lead_to_files_and_headings(page: Path) -> None:
    for target, heading in _LINK.findall(page.read_text()):
        if "://" in target:
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name} links to {target}"
        if heading and file.suffix == ".md":
            assert heading in anchors(file), f"{page.name} links to {target}#{heading}"


def test_the_language_reference_names_every_function_aggregate_and_type() -> None:
    text = LANGUAGE.read_text().lower()
    names = [*FUNCTIONS, *AGGREGATES, *SQL_TYPES]
    missing = [name for name in names if f"`{name}`" not in text and f"`{name}(" not in text and f"`{name}," not in text]
    assert missing == []


def test_the_example_application_is_legal_and_its_state_bounded() -> None:
    text = (ROOT / "docs" / "examples" / "auction.sql").read_text()
    assert check(parse_application(text, "auction", now=NOW_US)).is_bounded


def test_every_work_cited_in_a_docstring_is_in_the_bibliography() -> None:
    cited = {key for file in (ROOT / "penstock").rglob("*.py") for key in _KEY.findall(file.read_text())}
    known = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(), re.MULTILINE))
    assert cited <= known


def test_the_dependencies_page_names_every_dependency() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    text = (ROOT / "docs" / "dependencies.md").read_text()
    missing = [name for name in (re.split(r"[=<>\[]", item)[0] for item in wanted) if f"`{name}`" not in text]
    assert missing == []


def default_text(option: Option) -> str:
    if option.is_required:
        return "must be written"
    if option.default is None:
        return option.unless or "none"
    return str(option.default).upper() if isinstance(option.default, bool) else repr(option.default)


def options_table(hint: str) -> str:
    """The options of a hint as a table of the manual."""
    rows = [f"| `{item.name}` | {item.values_text} | {default_text(item)} | {item.means} |" for item in HINTS[hint].options]
    return "\n".join(["| Option | Value | Default | Meaning |", "|---|---|---|---|", *rows])


@pytest.mark.parametrize("hint", ["PWJOIN"])
def test_the_language_reference_holds_the_table_of_options_that_the_parser_reads(hint: str) -> None:
    assert options_table(hint) in LANGUAGE.read_text(encoding="utf-8")
