"""Records with every damage that a source can bring: in their values, and in the bytes of their lines."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

#: Columns of the streams, with the types that files of columns have.
COLUMNS = {
    "ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "name": pa.string(), "day": pa.date32(), "seen": pa.timestamp("us", "UTC"),
    "v": pa.float64(), "small": pa.int32(), "flag": pa.bool_(), "mark": pa.string(),
}  # fmt: skip
DECLARED = "ts TIMESTAMP, k BIGINT, name STRING, day DATE, seen TIMESTAMP, v DOUBLE, small INT, flag BOOLEAN, mark STRING"

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: Event time between two records, in milliseconds.
_STEP_MS = 10
#: Event times outside the calendar; one within it would make all later records late.
_IMPOSSIBLE = (2**63 - 1, -(2**63), 2**62, -(2**62), 253402300800000000, -62135596800000001, 0, None)
_EXTREMES = (0, 1, -1, 2**31, -(2**31), 2**53 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63), 253402300800000000, -62135596800000001)
#: Punctuations that close a part of the keys only: the stream goes on.
_MARKS = ('{"k": 7}', '{"k": [7, 8]}', '{"k": {"range": [1, 9]}}', '{"k": {"range": [3, 5], "bounds": "()"}}')
_POISON_MARKS = (
    '{"k": 99999999999999999999999}', '{"k": [1, 9223372036854775808]}', '{"seen": "99999-01-01T00:00:00Z"}', '{"v": 1e999}',
    '{"seen": 9223372036854775807}', '{"k": ' + "9" * 5000 + "}", "[" * 2000, '{"name": "\\ud800"}', '{"k": {"range": 5}}', "",
    '{"k": {"range": {}}}', '{"k": [[1]]}', '{"k": null}', '{"k": true}', '{"day": "x"}', "null", "7", '"', '{"k": 7, "K": 8}',
    '{"$next": 99999999999999999999999, "k": 1}', '{"$confidence": NaN, "k": 1}', '{"seen": {"range": ["2026-01-01", 5]}}',
)  # fmt: skip
#: Values in the place of others, as they stand in JSON: of other types, too large, too deep, no JSON at all.
_ODD_JSON = (
    "null", "true", '"x"', '""', "[]", "{}", "[1, 2]", '{"k": 1}', "1e400", "-1e400", "1e1000000000", "9" * 30, "9" * 1500, "1.5",
    "-0", "NaN", "Infinity", '"\\ud800"', '"\\u0000"', '"9223372036854775808"', '"+999999999-12-31"', '"0000-00-00"',
    '"2026-02-30T25:61:61Z"', "[" * 1500, "{" * 20, '"' + "é" * 5000 + '"', "nul", "01", "0x10", "'a'",
    '"2026-01-01T00:00:00+99:99"', "9223372036854775807",
)  # fmt: skip
#: As a punctuation it ends the stream: nothing but violations could follow.
_END = "{}"
_ODD_CSV = (
    "", '"', '""', '"""', "x", "true", "1e400", "9" * 30, "9" * 1500, "1.5", "NaN", "Infinity", '"a,b"', '"a""b"', "\\", '\\"',
    "a\\,b",
    "+999999999-12-31", "0000-00-00", "2026-02-30T25:61:61Z", "é" * 5000, "a,b,c", "," * 50, "," * 25_000, "\x00", "null", "#", "'",
)  # fmt: skip
_ODD_BYTES = (
    b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\xf0\x9f\x98", b"\x00", b"\xef\xbb\xbf", b'"', b",", b"{", b"}", b"\\", b"\t", b"\x1a",
)  # fmt: skip
_LINE_ENDS = re.compile(rb"\r\n|\r|\n")


def event_time(number: int, random: Random) -> datetime:
    """Most come in order, some are late."""
    behind = random.randrange(4000) if random.random() < 0.98 else 3_600_000
    return _BEGIN + timedelta(milliseconds=_STEP_MS * number - behind)


def _mark(random: Random) -> str | None:
    kind = random.random()
    if kind < 0.95:
        return None
    return random.choice(_MARKS if kind < 0.952 else _POISON_MARKS)


def sound(number: int, random: Random) -> dict[str, Any]:
    """A record as plain values of JSON; only its punctuation may be poison."""
    ts = event_time(number, random).isoformat()
    return {
        "ts": ts, "k": random.choice((random.randrange(200), random.randrange(200), random.choice(_EXTREMES), None)),
        "name": random.choice(("a", "b", "é", "17", "", "a b", None)), "day": f"2026-01-0{1 + number // 20_000 % 9}",
        "seen": random.choice((ts, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", None)),
        "v": random.choice((1.5, -0.0, 1e308, 5e-324, None)), "small": random.choice((0, 2**31 - 1, -(2**31), None)),
        "flag": random.choice((True, False, None)), "mark": _mark(random),
    }  # fmt: skip


def json_line(number: int, random: Random, is_wild: bool) -> bytes:
    """A line of JSON, damaged three times of four.

    Parameters
    ----------
    is_wild
        Whether damage may reach the event time, or end the stream. A time that lands in the far future makes all later records
        late, as it should; so only the last files of a stream are wild.
    """
    record = {name: json.dumps(value) for name, value in sound(number, random).items()}
    kind = random.random()
    if kind < 0.25:
        name = _other_column(random, is_wild)
        record[name] = random.choice([text for text in _ODD_JSON if is_wild or name != "mark" or text != _END])
    elif kind < 0.35:
        record = _other_fields(record, random, is_wild)
    line = ("{" + ", ".join(f'"{name}": {value}' for name, value in record.items()) + "}").encode(errors="surrogatepass")
    return line if 0.35 <= kind < 0.6 else damaged(line, 40, random, is_wild)


def csv_line(number: int, random: Random, is_wild: bool) -> bytes:
    """A line of CSV, damaged three times of four."""
    values = ["" if value is None else _quoted(str(value)) for value in sound(number, random).values()]
    kind = random.random()
    if kind < 0.25:
        values[random.randrange(0 if is_wild else 1, len(values))] = random.choice(_ODD_CSV)
    elif kind < 0.3:
        values += random.choices(_ODD_CSV, k=random.randrange(1, 4))
    elif kind < 0.35:
        del values[random.randrange(1, len(values)) :]
    line = ",".join(values).encode()
    return line if 0.35 <= kind < 0.6 else damaged(line, 33, random, is_wild)


def text_line(number: int, random: Random, is_wild: bool) -> bytes:
    return damaged(f"line {number} of a text, héllo".encode(), 0, random, True)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if '"' in text or "," in text else text


def _other_column(random: Random, is_wild: bool) -> str:
    return random.choice(list(COLUMNS)[0 if is_wild else 1 :])


def _other_fields(record: dict[str, str], random: Random, is_wild: bool) -> dict[str, str]:
    """Fields that are missing, unknown, in another order, or called otherwise."""
    kind, name = random.randrange(4), _other_column(random, is_wild)
    if kind == 0:
        return {key: value for key, value in record.items() if key != name}
    if kind == 1:
        return {**record, "unknown": random.choice(_ODD_JSON)}
    if kind == 2:
        first, others = ([], list(record)) if is_wild else (["ts"], [key for key in record if key != "ts"])
        return {key: record[key] for key in (*first, *random.sample(others, len(others)))}
    return {(key.upper() if key == name else key): value for key, value in record.items()}


def damaged(line: bytes, spared: int, random: Random, is_wild: bool) -> bytes:
    """The line with bytes taken out, put in, swapped, or cut off; where it is not wild the first bytes are spared."""
    found, first = bytearray(line), 0 if is_wild else spared
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        if len(found) <= first + 1:
            break
        at, kind = random.randrange(first, len(found)), random.randrange(6)
        if kind == 0:
            del found[at : at + random.randrange(1, 4)]
        elif kind == 1:
            found[at:at] = random.randbytes(random.randrange(1, 4))
        elif kind == 2:
            other = random.randrange(first, len(found))
            found[at], found[other] = found[other], found[at]
        elif kind == 3:
            found[at:at] = random.choice(_ODD_BYTES)
        elif kind == 4:
            found[at] = random.randrange(256)
        elif random.random() < 0.2:
            del found[at:]
    return bytes(found)


def lines_in(content: bytes) -> list[bytes]:
    """Lines as Hadoop cuts them: at carriage returns too, and nothing behind the last end of a line."""
    found = _LINE_ENDS.split(content)
    return found if found[-1] else found[:-1]


def table(first: int, count: int, random: Random) -> pa.Table:
    """Records in columns: bytes that are no text, times and numbers at the ends of what their types hold, or none."""
    times = [_micros(event_time(number, random)) for number in range(first, first + count)]
    odd = (*_EXTREMES, None)
    values: dict[str, list[Any]] = {
        "ts": [ts if random.random() < 0.9 else random.choice(_IMPOSSIBLE) for ts in times],
        "k": [random.choice(odd) if random.random() < 0.2 else random.randrange(200) for _ in times],
        "name": [random.choice((b"a", b"b", "é".encode(), b"17", b"", None, b"a b", b"\x00", *_ODD_BYTES)) for _ in times],
        "day": [
            20454 + (first + at) // 20_000
            if random.random() < 0.97
            else random.choice((2**31 - 1, -(2**31), 2932897, -719163, None))
            for at in range(count)
        ],
        "seen": [random.choice((ts, ts, ts, *odd)) for ts in times],
        "v": random.choices((1.5, -0.0, float("nan"), float("inf"), 1e308, 5e-324, None), k=count),
        "small": random.choices((0, 2**31 - 1, -(2**31), None), k=count),
        "flag": random.choices((True, False, None), k=count),
        "mark": [None if text is None else damaged(text.encode(), 0, random, False) for text in (_mark(random) for _ in times)],
    }
    stored = {pa.string(): pa.binary(), pa.date32(): pa.int32(), COLUMNS["ts"]: pa.int64()}
    arrays = [pa.array(values[name], stored.get(kind, kind)).view(kind) for name, kind in COLUMNS.items()]
    return pa.Table.from_arrays(arrays, names=list(COLUMNS))


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
