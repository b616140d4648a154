"""What `penstock check` and `penstock explain` say about contracts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.apps.checking import check_application
from penstock.errors import InvalidDeclaration
from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.lowering.looped import looped
from penstock.lowering.loss_paths import query_paths, shedders
from penstock.lowering.sheddable import entries_with_loss
from penstock.lowering.stages import build_job

FOLDER = Path(__file__).parents[1] / "golden" / "contracts"
STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, v DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);" for name in "ab"
)
LOSS = "WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 5 PERCENT{})"
DISTINCT = "AS SELECT DISTINCT k FROM a [RANGE 1 MINUTE]"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_the_check_and_the_explanation_show_contracts_like_the_golden_file(path: Path, update_golden: bool) -> None:
    text, _, expected = path.read_text().partition("\n----")
    catalog = parse_application(text, path.stem)
    result = str(check_application(catalog))
    if update_golden:
        path.write_text(f"{text}\n----\n{result}\n")
    assert update_golden or result == expected.strip("\n")
    shown = result[result.index("\ncontracts\n") :]
    assert shown in str(explain(catalog))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_the_data_say_the_same_in_both(path: Path) -> None:
    catalog = parse_application(path.read_text().partition("\n----")[0], path.stem)
    checked, explained = (json.loads(json.dumps(found.to_json())) for found in (check_application(catalog), explain(catalog)))
    assert checked["contracts"] == explained["contracts"] != []
    assert checked["bounded"] is True


def test_the_data_name_the_query_that_forbids_loss() -> None:
    groups = "SELECT k, COUNT(*) AS n FROM a [RANGE {} MINUTES] GROUP BY k"
    loss = LOSS.format(" DROP LOWEST v")  # not a column of the groups, so only packing tasks could go by it
    catalog = parse_application(f"{STREAMS} CREATE CQ q {loss} AS {groups.format(2)}; CREATE CQ r AS {groups.format(1)};")
    (contract,) = check_application(catalog).to_json()["contracts"]
    assert contract["loss"]["usable"] is False
    (kept,) = contract["loss"]["kept"]
    assert (kept["entry"], kept["stream"], kept["because_of"]) == ("a@1.0", "a", ["r"])
    assert contract["loss"]["losing"] == []
    assert contract["remarks"][0] == kept["text"] == "a (a@1.0) loses no rows: r gets the same rows, and does not allow that"


def test_what_may_be_lost_is_what_a_run_would_leave_out() -> None:
    text = f"{STREAMS} CREATE CQ q {LOSS.format(' DROP LOWEST V')} AS SELECT a.k, b.v FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] "
    catalog = parse_application(text + "WHERE a.k = b.k;")
    (contract,) = check_application(catalog).to_json()["contracts"]
    job = looped(build_job(catalog, 3))
    _, placed = shedders(job, query_paths(job, job.contracts), {}, 1.0, 1)
    assert {item["entry"]: item["most"] for item in contract["loss"]["losing"]} == {each.place[0]: each.capacity for each in placed}
    assert {(item["drop"], item["column"]) for item in contract["loss"]["losing"]} == {("lowest", "v"), ("lowest", "b.v")}


def test_where_only_some_queries_allow_loss_it_is_behind_the_place_where_their_ways_part() -> None:
    groups = "SELECT k, COUNT(*) AS n FROM a [RANGE {} MINUTES] GROUP BY k"
    text = f"{STREAMS} CREATE CQ q {LOSS.format('')} AS {groups.format(2)}; CREATE CQ r AS {groups.format(1)};"
    report = check_application(parse_application(text))
    (contract,) = report.to_json()["contracts"]
    (losing,) = contract["loss"]["losing"]
    assert losing["operator"].startswith("GroupBy")
    assert contract["loss"]["usable"] is True
    assert f"in front of {losing['operator']}, up to 5 % of the rows" in str(report)


def test_a_stream_without_the_column_loses_nothing() -> None:
    streams = STREAMS.replace("CREATE STREAM b (k BIGINT, v", "CREATE STREAM b (k BIGINT, w")
    text = f"{streams} CREATE CQ q {LOSS.format(' DROP LOWEST w')} AS SELECT a.k, b.w FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] "
    (contract,) = check_application(parse_application(text + "WHERE a.k = b.k;")).contracts
    assert [str(kept) for kept in contract.kept] == ["a (a@1.0) loses no rows: it has no number 'w'"]
    assert [losing.most for losing in contract.losing] == [0.05]


def test_an_application_without_contracts_shows_none() -> None:
    report = check_application(parse_application(f"{STREAMS} CREATE CQ q AS SELECT k FROM a;"))
    assert report.to_json()["contracts"] == []
    assert "contracts" not in str(report)


def test_loss_that_makes_answers_wrong_is_refused_as_a_start_refuses_it() -> None:
    catalog = parse_application(f"{STREAMS} CREATE CQ q {LOSS.format('')} {DISTINCT};")
    with pytest.raises(InvalidDeclaration) as refused:
        check_application(catalog)
    with pytest.raises(InvalidDeclaration) as at_start:
        entries_with_loss(looped(build_job(catalog, 4)))
    assert str(refused.value) == str(at_start.value)
    with pytest.raises(InvalidDeclaration):
        explain(catalog)
    assert check_application(parse_application(f"{STREAMS} CREATE CQ q {LOSS.format(' ANYWHERE')} {DISTINCT};")).is_bounded
