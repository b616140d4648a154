"""Messages of a Kafka topic with every damage: that of lines of JSON, and what only messages can have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from penstock.testing.damage.records import csv_line, json_line, sound

#: A message may have a megabyte, with its key, its headers and what Kafka needs.
_LONGEST = 1_000_000
#: Of so many messages one is that long.
_LONG_EACH = 4_000
#: Moments that Spark can read as the time of a message, in milliseconds: the year 57,000 too. It stops at later ones.
_TIMES_MS = (2**31, 253_402_300_800_000, 1_767_225_600_000_000, 9_223_372_036_854_775)

#: Columns of a frame that Spark writes to Kafka.
FRAME = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "partition": pa.int32(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    }
)


@dataclass(frozen=True, slots=True)
class Message:
    """What a producer sends."""

    key: bytes | None
    value: bytes | None
    partition: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    #: When it was sent, as the producer has it; None leaves it to the producer.
    time_ms: int | None = None


def messages(first: int, count: int, partitions: int, random: Random, is_wild: bool) -> Iterator[Message]:
    """Messages in the order of their event times; where they are wild, damage reaches these too."""
    for number in range(first, first + count):
        value = _value(number, random, is_wild)
        headers = ((random.choice(("", "trace", "é")), random.choice((None, b"", b"\xff\xfe"))),) * random.choice((0, 0, 0, 1, 3))
        key = random.choice((None, b"", b"\xff", str(number).encode()))
        yield Message(key, value, random.randrange(partitions), headers, random.choice(_TIMES_MS))


def frame(sent: list[Message]) -> pa.Table:
    """Messages as columns; without times, which Spark gives itself."""
    rows = [
        {
            "key": each.key,
            "value": each.value,
            "partition": each.partition,
            "headers": [{"key": name, "value": value} for name, value in each.headers] or None,
        }
        for each in sent
    ]
    return pa.Table.from_pylist(rows, FRAME)


def _value(number: int, random: Random, is_wild: bool) -> bytes | None:
    if number % _LONG_EACH == 17:
        return _long(number, random)
    if random.random() < 0.85:
        return json_line(number, random, is_wild)
    record = sound(number, random)
    text = json.dumps(record)
    other = json.dumps({**record, "k": 5, "name": "other"})
    made = random.choice(
        (
            None, "", " ", "\t\r\n", "null", "7", '"text"', "true", "[]", "{}", "\N{ZERO WIDTH NO-BREAK SPACE}" + text,
            csv_line(number, random, False), f"[{text}]", f"[{text}, {other}]", f"[{text}", f"{text}]", f"{text}{other}",
            f"{text} {other}", f"{text}\n{other}", f"{text}, {other}", f'{text}, "k": 5', f"{text}}}", f'{text}], "x": [1',
            f"{text} x", f"{text} \t\n", f"\n {text}", text[:-1], f'{text[:-1]}, "k": 9, "k": 10}}',
            f'{text[:-1]}, "part": 77, "off": -5}}',
            f'{text[:-1]}, "x": {{"k": 1}}, "y": [{{}}, []]}}', f'{text[:-1]}, "x": "}}"}}', f"{{{text[1:-1]}}} // comment",
            f"{text}\x00", random.randbytes(random.randrange(1, 40)), f'{text[:-1]}, "_bad": "mine"}}',
            f'{text[:-1]}, "name": {{"k": 1}}}}',
        )
    )  # fmt: skip
    return made.encode() if isinstance(made, str) else made


def _long(number: int, random: Random) -> bytes:
    """As long as Kafka takes it: one long text, many fields, or nothing that could be read."""
    record: dict[str, Any] = sound(number, random)
    room = _LONGEST - 2_000
    kind = random.randrange(4)
    if kind == 0:
        return json.dumps({**record, "name": "a}" * (room // 2)}).encode()
    if kind == 1:
        return json.dumps({**record, "unknown": [{"a": 1}] * (room // 12)}).encode()
    if kind == 2:
        return b"\xff" * room
    return json.dumps(record).encode() + b" " * room + b"x"
