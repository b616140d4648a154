"""The network application over forty virtual seconds, against a brute-force reading of its streams."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from penstock.apps.network.lookups import domain, entropy
from penstock.apps.table import EXAMPLES
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.operators.filtering.status import FilterStatus
from penstock.plan.analysis.safety import check
from penstock.runners.local.runner import LocalRunner
from penstock.workloads.playback import Playback

RATE, SECONDS, DRIFT = 500, 40, 20
SECOND = 1_000_000
Row = dict[str, Any]


@dataclass
class Played:
    runner: LocalRunner
    rows: dict[str, list[Row]]
    #: How the filter stood after each second.
    statuses: list[FilterStatus]


@pytest.fixture(scope="module")
def played() -> Played:
    text = EXAMPLES["network"].file.read_text().replace("rate '1000'", f"rate '{RATE}'")
    text = text.replace("drift_rows '30000'", f"drift_rows '{RATE * DRIFT}'")
    # What the two functions cost about; on a busy machine measured times vary.
    for name, cost in (("domain", "3e-6"), ("entropy", "17e-6")):
        text = text.replace(f"lookups:{name}', kind 'rows'", f"lookups:{name}', kind 'rows', cost '{cost}'")
    catalog = parse_application(text, "network")
    runner = LocalRunner(build_job(catalog, 2))
    rows: dict[str, list[Row]] = defaultdict(list)
    statuses = []
    for second in range(SECONDS):
        given: dict[str, list[pa.RecordBatch]] = {}
        for stream in catalog.streams.values():
            feed = Playback.from_text(dict(stream.source.options))
            ranges = feed.ranges(second * RATE, (second + 1) * RATE)
            given[stream.name] = [batch for part in ranges for batch in feed.batches(part, stream.schema.arrow)]
            rows[stream.name] += [row for batch in given[stream.name] for row in batch.to_pylist()]
        runner.run(given)
        statuses += runner.steering.statuses()
    runner.end()
    return Played(runner, rows, statuses)


def test_encoded_logins_are_those_that_meet_all_conditions(played: Played) -> None:
    expected = [
        {"pid": row["pid"], "dest": row["dest"]}
        for row in played.rows["r1"]
        if row["size"] > 60 and "/login" in row["payload"] and entropy(row["payload"]) > 4.5 and domain(row["dest"]) == "yahoo.com"
    ]
    found = played.runner.collected.rows("encoded_logins")
    assert sorted(found, key=lambda row: row["pid"]) == sorted(expected, key=lambda row: row["pid"])
    assert len(found) > 50


def test_the_conditions_change_places_with_the_traffic(played: Played) -> None:
    def looks_up_first(status: FilterStatus) -> bool:
        return status.order.index("domain(dest) = 'yahoo.com'") < status.order.index("entropy(payload) > 4.5")

    before, after = played.statuses[DRIFT - 1], played.statuses[-1]
    assert looks_up_first(before)
    assert not looks_up_first(after)
    assert after.reorderings > before.reorderings >= 1
    changed = next(at for at in range(DRIFT, SECONDS) if not looks_up_first(played.statuses[at]))
    assert changed - DRIFT < 10


def test_common_traffic_is_what_all_four_routers_have_seen(played: Played) -> None:
    seen = [{row["pid"] for row in played.rows[router]} for router in ("r2", "r3", "r4")]
    common = [row for row in played.rows["r1"] if all(row["pid"] in other for other in seen)]
    windows: dict[int, list[int]] = defaultdict(list)
    for row in common:
        us = round(row["ts"].timestamp() * SECOND)
        windows[us - us % (5 * SECOND)].append(row["size"])
    answers = played.runner.collected.rows("common_traffic")
    found = {round(row["since"].timestamp() * SECOND): (row["packets"], row["bytes"]) for row in answers}
    assert found == {since: (len(sizes), sum(sizes)) for since, sizes in windows.items()}
    assert len(common) > 1000


def test_the_state_of_the_application_is_bounded() -> None:
    catalog = parse_application(EXAMPLES["network"].file.read_text(), "network")
    assert check(catalog).is_bounded
    assert not catalog.warnings
