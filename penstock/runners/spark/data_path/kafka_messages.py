"""Messages of Kafka as rows: one message, one row, whatever the message holds."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from penstock.kernel.damage import BAD
from penstock.model.declarations import StreamDeclaration

_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD}
#: What may stand before a JSON object.
_BLANKS = " \t\r\n"
#: A text that no message holds.
_LAST = "the member behind the message"
#: Escaped halves of characters: two of them make one, a single one is no text. An escaped backslash begins no escape.
_HALF = r"\\u[dD][89a-fA-F]"
_WHOLE = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"


def kafka_rows(topic: DataFrame, stream: StreamDeclaration, declared: StructType) -> DataFrame:
    """Kafka values as JSON of the declared columns; partition and offset are Kafka's own if they are declared."""
    own = {stream.partition_column: "partition", stream.position_column: "offset"}
    payload = StructType([item for item in declared.fields if item.name not in own] + [StructField(BAD, StringType())])
    text = f.col("value").cast("string")
    found = topic.select(
        f.from_json(text, payload, _OPTIONS).alias("row"), _damage(text).alias("damage"), "partition", "offset", text.alias("text")
    )
    columns = [f.col(own[item.name]) if item.name in own else f.col(f"row.`{item.name}`") for item in declared.fields]
    named = [column.cast(item.dataType).alias(item.name) for column, item in zip(columns, declared.fields, strict=True)]
    return found.select(*named, f.coalesce("damage", f"row.`{BAD}`", _unread(f.col("text"))).alias(BAD))


def _damage(text: Column) -> Column:
    """What is wrong with a message that Spark would read all the same, with other characters; NULL if nothing is."""
    invalid = f.concat(f.lit("not UTF-8: "), f.make_valid_utf8(text))
    # Most messages have no escapes at all, and asking for that is cheap.
    may_have_halves = f.contains(text, f.lit("\\u")) & (f.contains(text, f.lit("\\ud")) | f.contains(text, f.lit("\\uD")))
    has_half = may_have_halves & f.rlike(f.regexp_replace(text, f.lit(_WHOLE), f.lit(" ")), f.lit(_HALF))
    return (
        f.when(text.isNull(), f.lit("no value, as deleted keys have"))
        .when(~f.is_valid_utf8(text), invalid)
        .when(has_half, f.concat(f.lit("half a character: "), text))
    )


def _unread(text: Column) -> Column:
    """What is wrong with a message in which Spark has met no fault; NULL if nothing is.

    Of a list Spark reads the first object, of a blank message nothing, and it stops at the end of an object, whatever follows. Most
    messages end with their first closing brace, and so need no other look. The others are read once more as the first of two
    members of a list: where anything follows the object, there are more members, or the list ends before the second.
    """
    before_brace = f.octet_length(f.substring_index(text, "}", 1))
    is_plain = f.startswith(text, f.lit("{")) & (before_brace == f.octet_length(text) - 1)
    members = f.from_json(f.concat(f.lit("["), text, f.lit(f', "{_LAST}"]')), ArrayType(StringType()))
    is_alone = f.coalesce(f.slice(members, 2, 2) == f.array(f.lit(_LAST)), f.lit(False))
    is_object = is_plain | (f.startswith(f.ltrim(text, f.lit(_BLANKS)), f.lit("{")) & is_alone)
    return f.when(~is_object, f.concat(f.lit("not one JSON object: "), text))
