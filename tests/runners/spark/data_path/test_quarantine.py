"""No row gets lost silently: what cannot be used is counted and kept with its reason, or stops the query."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hosts import answers, bag, json_lines, run_to_the_end, write_files
from pyspark.sql import SparkSession

from penstock.errors import BadRows, LateRows, PunctuationViolated
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run
from penstock.testing.damaged_files import main

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, k BIGINT, v DOUBLE, at TIMESTAMP"
JSON = """
CREATE STREAM j ({columns}, UNIQUE (id), WATERMARK at DELAY OF INTERVAL 5 SECONDS)
  USING json OPTIONS (path '{path}', maxFilesPerTrigger '1') ON LATE ROWS {late} ON BAD ROWS {bad} ON VIOLATION {violation};
CREATE CQ of_json AS SELECT id, count(*) AS n, sum(v) AS total FROM j [RANGE 10 SECONDS] WHERE v < 100 GROUP BY id;
"""
CSV = """
CREATE STREAM c ({columns}, WATERMARK at DELAY OF INTERVAL 5 SECONDS) USING csv OPTIONS (path '{path}', header 'true');
CREATE CQ of_csv AS SELECT id, k, v FROM c;
"""
MARKED = """
CREATE STREAM m (item BIGINT, price DOUBLE, at TIMESTAMP, mark STRING, WATERMARK at DELAY OF INTERVAL 5 SECONDS)
  USING json OPTIONS (path '{path}', maxFilesPerTrigger '1') PUNCTUATIONS FROM mark ON VIOLATION {violation};
CREATE CQ of_items AS SELECT item, count(*) AS n FROM m GROUP BY item;
"""


def at(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}.000Z"


GOOD = [
    {"id": 1, "k": 1, "v": 1.0, "at": at(10)},
    {"id": None, "k": 1, "v": 2.0, "at": at(11)},  # a NULL key is its own group
    {"id": 3, "k": 2, "v": 4.0, "at": at(31)},
    {"id": 4, "k": 2, "v": 200.0, "at": at(32)},  # filtered
]
MALFORMED = ['{"id": 5, "k": 1, "v": 1.0, "at"', '{"id": "five", "k": 1, "v": 1.0, "at": "' + at(33) + '"}', "[1, 2"]
UNTIMED = {"id": 6, "k": 1, "v": 1.0, "at": None}
LATE = {"id": 7, "k": 1, "v": 1.0, "at": at(12)}
TWICE = {"id": 3, "k": 2, "v": 4.0, "at": at(40)}
TWICE_AT_ONCE = {"id": 8, "k": 3, "v": 8.0, "at": at(41)}
ITEMS = [
    {"item": 1, "price": 1.0, "at": at(1)},
    {"at": at(2), "mark": '{"item": 1}'},
    {"item": 2, "price": 2.0, "at": at(3)},
    {"item": 1, "price": 3.0, "at": at(4)},  # after its punctuation
]


def of_json(folder: Path, late: str = "QUARANTINE", bad: str = "QUARANTINE", violation: str = "QUARANTINE") -> str:
    """Two micro-batches: good rows and bad ones, then rows that the first batch makes late or repeated."""
    second = [LATE, TWICE, TWICE_AT_ONCE, TWICE_AT_ONCE]
    write_files(folder, "json", [json_lines([*GOOD, UNTIMED]) + "".join(f"{line}\n" for line in MALFORMED), json_lines(second)])
    return JSON.format(columns=COLUMNS, path=folder, late=late, bad=bad, violation=violation)


def of_csv(folder: Path) -> str:
    lines = [
        "id,k,v,at",
        f"1,1,1.5,{at(1)}",
        f"2,x,1.5,{at(2)}",
        f"3,,,{at(3)}",
        "4,4,4.5,",
        f"5,5,5.5,{at(5)},surplus",
        f"6,6,y,{at(6)}",
    ]
    write_files(folder, "csv", ["\n".join(lines) + "\n"])
    return CSV.format(columns=COLUMNS, path=folder)


def of_items(folder: Path, violation: str = "QUARANTINE") -> str:
    """Files have no order within a micro-batch, so what violates a punctuation comes with a later one."""
    write_files(folder, "json", [json_lines(ITEMS[:2]), json_lines(ITEMS[2:])])
    return MARKED.format(path=folder, violation=violation)


def refused(run: Run) -> list[dict[str, object]]:
    files = sorted(Path(run.quarantine).glob("*.parquet"))
    return pa.concat_tables(pq.ParquetFile(file).read() for file in files).to_pylist()


def test_refused_rows_are_kept_with_their_reasons_and_every_row_is_accounted_for(spark: SparkSession, tmp_path: Path) -> None:
    text = of_json(tmp_path / "j") + of_csv(tmp_path / "c") + of_items(tmp_path / "m")
    run = run_to_the_end(text, spark, tmp_path / "checkpoint")

    assert bag(answers(run, "of_json")) == bag(
        {"id": key, "n": 1, "total": total} for key, total in ((1, 1.0), (None, 2.0), (3, 4.0), (8, 8.0))
    )
    assert bag(answers(run, "of_csv")) == bag([{"id": 1, "k": 1, "v": 1.5}, {"id": 3, "k": None, "v": None}])
    assert bag(answers(run, "of_items")) == bag([{"item": 1, "n": 1}, {"item": 2, "n": 1}])

    found = refused(run)
    assert Counter((row["stream"], row["reason"]) for row in found) == {
        ("j", "malformed"): 3, ("j", "no-timestamp"): 1, ("j", "late"): 1, ("j", "punctuation-violated"): 2,
        ("c", "malformed"): 3, ("c", "no-timestamp"): 1, ("m", "punctuation-violated"): 1,
    }  # fmt: skip
    shown = {(row["reason"], text) for row in found if row["stream"] == "j" for text in json.loads(row["row"]).values()}
    assert all(("malformed", line) in shown for line in MALFORMED)
    assert [row["epoch"] for row in found if row["reason"] == "late"] == [1]
    reports = run.reports()
    assert Counter(row["reason"] for row in found) == sum((Counter(report.refused) for report in reports), Counter())
    entries = reports[-1].entries
    assert {name.split("@")[0]: counters["read"] for name, counters in entries.items()} == {"j": 12, "c": 6, "m": 3}
    for counters in entries.values():
        assert counters["read"] == sum(counters[part] for part in ("used", "filtered", "late", "bad", "violating"))


DAMAGED = """
CREATE STREAM j ({columns}, WATERMARK at DELAY OF INTERVAL 5 SECONDS) USING json OPTIONS (path '{folder}/j') PUNCTUATIONS FROM mark;
CREATE STREAM c ({columns}, WATERMARK at DELAY OF INTERVAL 5 SECONDS) USING csv OPTIONS (path '{folder}/c') PUNCTUATIONS FROM mark;
CREATE STREAM p ({columns}, WATERMARK at DELAY OF INTERVAL 5 SECONDS)
  USING parquet OPTIONS (path '{folder}/p') PUNCTUATIONS FROM mark;
CREATE STREAM q ({columns}, WATERMARK at DELAY OF INTERVAL 5 SECONDS)
  USING parquet OPTIONS (path '{folder}/p', reader 'spark') PUNCTUATIONS FROM mark;
CREATE STREAM t (value STRING) USING text OPTIONS (path '{folder}/c');
CREATE CQ of_j AS SELECT name, count(*) AS n FROM j [RANGE 10 SECONDS] GROUP BY name;
CREATE CQ of_c AS SELECT name, count(*) AS n FROM c [RANGE 10 SECONDS] GROUP BY name;
CREATE CQ of_p AS SELECT upper(name) AS name, count(*) AS n FROM p [RANGE 10 SECONDS] GROUP BY upper(name);
CREATE CQ of_q AS SELECT upper(name) AS name, count(*) AS n FROM q [RANGE 10 SECONDS] GROUP BY upper(name);
CREATE CQ of_t AS SELECT DISTINCT value FROM t [RANGE 10 SECONDS];
"""


def damaged(random: Random, text: bytes) -> bytes:
    """The line with a few bytes changed; it stays one line."""
    line = bytearray(text)
    for _ in range(random.choice((0, 0, 1, 3))):
        at = random.randrange(len(line))
        line[at : at + random.randrange(3)] = random.randbytes(random.randrange(3))
    return bytes(line).replace(b"\n", b"").replace(b"\r", b"")


def test_damaged_rows_of_any_format_are_kept_apart_and_the_query_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    random, rows = Random(7), 2000
    marks = ['{"id": 99999999999999999999999}', '{"at": "99999-01-01"}', '{"id": [1', '{"name": "\\ud800"}', '{"id": 5}']
    times = [10**6 * second for second in range(20)] + [2**63 - 1, -(2**63), None]
    names = [b"a", b"b", b"\xff\xfe", b"caf\xe9", None]
    for folder in "jcp":
        (tmp_path / folder).mkdir()
    lines = []
    for number in range(rows):
        row = {"id": number, "name": random.choice("abc"), "at": at(random.randrange(20)), "mark": None}
        lines.append(row | ({"mark": random.choice(marks)} if number % 50 == 0 else {}))
    (tmp_path / "j" / "0.json").write_bytes(b"\n".join(damaged(random, json.dumps(row).encode()) for row in lines))
    (tmp_path / "c" / "0.csv").write_bytes(
        b"\n".join(damaged(random, f"{row['id']},{row['name']},{row['at']},".encode()) for row in lines)
    )
    columns = [
        pa.array(range(rows), pa.int64()), pa.array(random.choices(names, k=rows), pa.binary()).view(pa.string()),
        pa.array(random.choices(times, k=rows), pa.int64()).view(pa.timestamp("us", "UTC")),
        pa.array([random.choice(marks) if number % 50 == 0 else None for number in range(rows)]),
    ]  # fmt: skip
    pq.write_table(pa.Table.from_arrays(columns, ["id", "name", "at", "mark"]), tmp_path / "p" / "0.parquet")
    text = DAMAGED.format(folder=tmp_path, columns="id BIGINT, name STRING, at TIMESTAMP, mark STRING")
    run = run_to_the_end(text, spark, tmp_path / "checkpoint")
    entries = run.reports()[-1].entries
    for name, counters in entries.items():
        assert counters["read"] == sum(counters[part] for part in ("used", "filtered", "late", "bad", "violating", "after_end"))
        assert min(counters["used"], counters["read"] - 1000) > 0, name
    assert sum(counters["bad"] for counters in entries.values()) == len(refused(run))
    (ours,), (theirs,) = ([counters for name, counters in entries.items() if name.startswith(which)] for which in "pq")
    assert {kind: ours[kind] for kind in ("read", "used", "bad")} == {kind: theirs[kind] for kind in ("read", "used", "bad")}
    assert bag(answers(run, "of_p")) == bag(answers(run, "of_q"))


def test_the_command_that_accounts_for_damaged_files_runs(spark: SparkSession) -> None:
    told: list[str] = []
    assert main(["--rows", "3000", "--only", "text"], told.append) == 0
    assert told[-1].endswith("0 faults")
    assert "malformed" in told[0]


COMPUTED = """
CREATE STREAM c (ts TIMESTAMP, name STRING, note STRING, WATERMARK ts DELAY OF INTERVAL 5 SECONDS)
  USING csv OPTIONS (path '{folder}/c'{options});
CREATE STREAM p (ts TIMESTAMP, name STRING, seen TIMESTAMP, day DATE, WATERMARK ts DELAY OF INTERVAL 5 SECONDS)
  USING parquet OPTIONS (path '{folder}/p', reader 'spark');
CREATE CQ of_c AS SELECT name FROM c;
CREATE CQ loud AS SELECT upper(name) AS name FROM p WHERE day < DATE '9999-12-31' OR day IS NULL;
CREATE CQ later AS SELECT seen + INTERVAL 1 DAY AS later FROM p WHERE year(seen) > 0 AND length(name) > 0;
"""


def test_damage_is_seen_in_columns_that_spark_decodes_or_computes_with(spark: SparkSession, tmp_path: Path) -> None:
    for folder in "cp":
        (tmp_path / folder).mkdir()
    lines = [b"a,b", b"caf\xe9,b", b"a,\xff", b"caf\xc3\xa9,b", b"a" + b"," * 30_000]
    (tmp_path / "c" / "0.csv").write_bytes(b"\n".join(at(1).encode() + b"," + line for line in lines))
    rows = [(b"ok", 0, 0), (b"\xff", 0, 0), (b"ok", 2**63 - 1, 0), (b"ok", 0, 2**31 - 1)]
    columns = [
        pa.array([0] * 4, pa.timestamp("us", "UTC")), pa.array([row[0] for row in rows], pa.binary()).view(pa.string()),
        pa.array([row[1] for row in rows], pa.int64()).view(pa.timestamp("us", "UTC")),
        pa.array([row[2] for row in rows], pa.int32()).view(pa.date32()),
    ]  # fmt: skip
    pq.write_table(pa.Table.from_arrays(columns, ["ts", "name", "seen", "day"]), tmp_path / "p" / "0.parquet")
    run = run_to_the_end(COMPUTED.format(folder=tmp_path, options=""), spark, tmp_path / "checkpoint")
    assert bag(answers(run, "of_c")) == bag([{"name": "a"}, {"name": "café"}])
    assert bag(answers(run, "loud")) == bag([{"name": "OK"}] * 2)
    assert len(answers(run, "later")) == 2
    told = Counter(
        (row["stream"], json.loads(row["row"])["_bad"].split(":")[0]) for row in refused(run) if "," * 99 not in row["row"]
    )
    assert told == {
        ("c", "not UTF-8"): 2, ("p", "column 'name' is not UTF-8"): 2, ("p", "column 'seen' is outside the years 1 to 9999"): 1,
        ("p", "column 'day' is outside the years 1 to 9999"): 1,
    }  # fmt: skip


def test_a_backlog_of_files_has_the_answers_of_reading_file_by_file(spark: SparkSession, tmp_path: Path) -> None:
    """Spark deals the files of a micro-batch to tasks by size, so in each task ages are mixed: the oldest rows come last here."""
    files = [
        [{"id": 100 * number + n, "k": n % 7, "v": 1.0, "at": at(10 * number + n % 15)} for n in range(60 - number)]
        for number in range(50)
    ]
    write_files(tmp_path / "j", "json", [json_lines(rows) for rows in files])
    text = JSON.format(columns=COLUMNS, path=tmp_path / "j", late="ERROR", bad="ERROR", violation="ERROR")
    text = text.replace("5 SECONDS", "15 SECONDS").replace("GROUP BY id", "GROUP BY k").replace("SELECT id,", "SELECT k,")
    run = run_to_the_end(text.replace("maxFilesPerTrigger '1'", "maxFilesPerTrigger '1000'"), spark, tmp_path / "checkpoint")
    rows = [row for file in files for row in file]
    expected = Counter((row["k"], row["at"][:-6]) for row in rows)  # ten seconds are all but the last digit
    assert Counter(row["n"] for row in answers(run, "of_json")) == Counter(expected.values())
    (counters,) = run.reports()[-1].entries.values()
    assert (counters["read"], counters["used"]) == (len(rows), len(rows))


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        ("bad", BadRows, "rows of stream 'j' are malformed; repair the source, or declare ON BAD ROWS QUARANTINE"),
        ("late", LateRows, "1 rows of stream 'j'.* older than the newest row.*declare a larger bound"),
        ("violation", PunctuationViolated, "rows of stream 'j' match a punctuation that came before them.*ON VIOLATION QUARANTINE"),
    ],
)
def test_with_the_policy_error_the_query_stops_and_says_why(
    spark: SparkSession, tmp_path: Path, policy: str, error: type[Exception], message: str
) -> None:
    run = App.from_text(of_json(tmp_path / "j", **{policy: "ERROR"})).start(tmp_path / "checkpoint", spark=spark)
    with pytest.raises(error, match=f"(?s){message}"):
        run.process_all_available()
    assert not run.is_active
