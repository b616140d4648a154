"""The order application over three virtual minutes, against an obvious reading of the same events."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.apps.table import EXAMPLES
from penstock.errors import NeverMatches
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.plan.analysis.safety import check
from penstock.runners.local.runner import LocalRunner
from penstock.workloads.contracts import Options
from penstock.workloads.orders import Orders
from penstock.workloads.orders_stories import DEVIATIONS, ORDERS_PER_CYCLE
from penstock.workloads.playback import Playback

RATE, SECONDS, STEP = 100, 180, 4
Row = dict[str, Any]
Alert = tuple[int, datetime, str]


@dataclass
class Played:
    runner: LocalRunner
    #: Events of each order, by time, without what customers look at.
    orders: dict[int, list[Row]]
    deviating: set[int]
    #: Rows of state after each micro-batch.
    state_rows: list[int]

    def alerts(self) -> list[Alert]:
        return sorted(tuple(row.values()) for row in self.runner.collected.rows("alerts"))

    def given_up(self) -> set[int]:
        """Orders whose events broke a constraint after the search had been given up."""
        refused = [each for each in self.runner.collected.refused if "matches of it may be missing" in each.text]
        return {order for each in refused for order in each.batch.column("order_id").to_pylist()}


@pytest.fixture(scope="module")
def played() -> Played:
    catalog = parse_application(EXAMPLES["orders"].file.read_text(), "orders")
    runner = LocalRunner(build_job(catalog, 2))
    events = catalog.streams["event"]
    feed = Playback.from_text(dict(events.source.options))
    rows: list[Row] = []
    state_rows: list[int] = []
    for second in range(0, SECONDS, STEP):
        ranges = feed.ranges(second * RATE, (second + STEP) * RATE)
        batches = [batch for part in ranges for batch in feed.batches(part, events.schema.arrow)]
        rows += [row for batch in batches for row in batch.to_pylist()]
        runner.run({"event": batches})
        state_rows.append(sum(counters.get("state_rows", 0) for counters in runner.report().values()))
    runner.end()
    orders: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["ts"]):
        if row["kind"] != "ViewStatus":
            orders[row["order_id"]].append(row)
    assert isinstance(feed.workload, Orders)
    stories = feed.workload.stories(np.array(list(orders)) // ORDERS_PER_CYCLE, Options(rate=RATE))
    deviating = {order for order, story in zip(orders, stories, strict=True) if story in DEVIATIONS}
    return Played(runner, orders, deviating, state_rows)


def clock(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S")


def expected_alerts(order: int, events: list[Row]) -> list[Alert]:
    """What a person who reads the events of one order would say."""
    found = []
    when: dict[str, list[datetime]] = defaultdict(list)
    for event in events:
        when[event["kind"]].append(event["ts"])

    def say(at: datetime, text: str) -> None:
        found.append((order, at, f"At {clock(at)} order {order}{text}"))

    for packed in when["PackOrder"]:
        for confirmed in when["ConfirmOrder"]:
            if confirmed < packed and not any(confirmed < paid < packed for paid in when["ReceivePayment"]):
                say(packed, f" was packed, but nobody had paid since it was confirmed at {clock(confirmed)}. "
                            "Expected: ReceivePayment before PackOrder.")  # fmt: skip
        for cancelled in when["CancelOrder"]:
            if cancelled < packed:
                say(packed, f" was packed, although it had been cancelled at {clock(cancelled)}. "
                            "Expected: nothing after CancelOrder.")  # fmt: skip
    for one, two in pairwise(when["ReceivePayment"]):
        say(two, f" was paid again; the payment before came at {clock(one)}. Expected: ReceivePayment once.")
    for here in when["UseLocalStock"]:
        for there in when["UseRemoteStock"]:
            say(max(here, there), f" had goods from both warehouses: from the local one at {clock(here)}, from the remote one at "
                                  f"{clock(there)}. Expected: either UseLocalStock or UseRemoteStock.")  # fmt: skip
    for finished in when["FinishOrder"]:
        for notified in when["NotifyCustomer"]:
            if not any(notified < audit < finished for audit in when["AuditOrder"]):
                say(finished, f" was finished, but nobody had audited it since its customer was notified at {clock(notified)}. "
                              "Expected: AuditOrder before FinishOrder.")  # fmt: skip
    invoices = [event for event in events if event["kind"] == "GenerateInvoice" and event["price"] > 200]
    for invoice in invoices:
        for taken in when["UseRemoteStock"]:
            for cancelled in when["CancelOrder"]:
                if taken < invoice["ts"] and max(invoice["ts"], *when["SendQuote"]) < cancelled:
                    say(cancelled, f", worth {invoice['price']:.0f}, was cancelled; its goods had left the remote warehouse at "
                                   f"{clock(taken)}. Expected: FinishOrder for orders above 200.")  # fmt: skip
    return found


def test_alerts_are_those_a_reader_of_the_events_would_raise(played: Played) -> None:
    expected = [alert for order, events in played.orders.items() for alert in expected_alerts(order, events)]
    found = played.alerts()
    assert len(set(found)) == len(found)
    assert set(found) <= set(expected)
    # Only the query that relies on the process can miss an order that breaks it, and then the event that did is set aside.
    missing = set(expected) - set(found)
    assert all("was cancelled;" in text and order in played.given_up() for order, _, text in missing)
    assert len(missing) <= 2
    assert len(expected) > 20
    # Every kind of alert.
    assert len({text.rpartition("Expected: ")[2] for _, _, text in expected}) == 6


def test_the_alerts_that_the_application_promises_are_raised(played: Played) -> None:
    pages = (EXAMPLES["orders"].folder / "README.md", Path(__file__).parents[2] / "README.md")
    told = [line for page in pages for line in page.read_text().splitlines() if line.startswith("At ")]
    assert len(told) == 5
    assert set(told) <= {text for *_, text in played.alerts()}


def test_every_order_that_left_the_process_is_alerted_and_others_only_for_their_price(played: Played) -> None:
    alerted: dict[int, list[str]] = defaultdict(list)
    for order, _, text in played.alerts():
        alerted[order].append(text)
    complete = {order for order in played.deviating if played.orders[order][-1]["kind"] in ("FinishOrder", "CancelOrder")}
    assert len(complete) > 10
    assert complete <= set(alerted)
    for order in set(alerted) - played.deviating:
        assert all("was cancelled;" in text for text in alerted[order])


def test_constraints_change_no_answer_of_orders_that_obey_them(played: Played) -> None:
    found = {row["order_id"] for row in played.runner.collected.rows("dear_and_cancelled")} - played.deviating
    expected = {
        order for order, events in played.orders.items() if any(", worth" in text for *_, text in expected_alerts(order, events))
    }
    assert found == expected - played.deviating
    assert len(found) >= 3
    refused = {order for each in played.runner.collected.refused for order in each.batch.column("order_id").to_pylist()}
    assert refused <= played.deviating


def test_most_orders_are_given_up_early_and_the_rest_of_their_events_passed_over(played: Played) -> None:
    (watched,) = [found for found in played.runner.report().values() if "failed_traces" in found]
    assert 0.5 * len(played.orders) < watched["failed_traces"] < len(played.orders)
    assert watched["skipped"] > 0.1 * watched["rows_in"]


def test_nothing_is_kept_of_orders_when_the_stream_has_ended(played: Played) -> None:
    assert sum(counters.get("state_rows", 0) for counters in played.runner.report().values()) == 0


def test_state_stays_flat_however_long_the_stream_goes_on(played: Played) -> None:
    # Thirty seconds of events, and those that wait for earlier ones; forgotten traces, such as of orders that go on after
    # their end, would add to it order by order.
    later = played.state_rows[len(played.state_rows) // 2 :]
    assert max(later) < 1.2 * min(later)


def test_what_the_process_forbids_is_refused_where_the_process_is_relied_on() -> None:
    text = EXAMPLES["orders"].file.read_text().replace("OPTIONS (reasoning 'off')", "")
    with pytest.raises(NeverMatches, match="can never match"):
        parse_application(text, "orders")


def test_the_state_of_the_application_is_bounded() -> None:
    catalog = parse_application(EXAMPLES["orders"].file.read_text(), "orders")
    assert check(catalog).is_bounded
    assert not catalog.warnings
