"""Every mistake an author can make: what is said, and where. The offending word stands between « and »."""

from __future__ import annotations

import pytest
from marked_mistakes import refused, unmarked, width_of

from penstock.errors import InvalidDeclaration, InvalidWindow, SyntaxMistake, UserError
from penstock.language.application import parse_application, parse_query
from penstock.language.dialect import parse_statements
from penstock.model.service import LateAnswers

STREAMS = """
CREATE STREAM bid (item BIGINT, price DOUBLE, bidder STRING, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE STREAM ask (item BIGINT, price DOUBLE, at TIMESTAMP, UNIQUE (item), WATERMARK at DELAY OF INTERVAL 5 SECONDS);
CREATE STREAM step (n BIGINT, v INT, WATERMARK n DELAY OF 5);
"""


def check(marked: str, code: str, message: str, now: int | None = None) -> None:
    place = refused(marked, code, message, "shop", now)
    assert place.width == width_of(marked)
    assert place.excerpt == unmarked(marked).splitlines()[place.line - 1]


STATEMENTS = [
    (
        "«CREAT» STREAM s (a INT)",
        "found 'CREAT' at the start of a statement; expected CREATE STREAM, CREATE CQ, CREATE FUNCTION or SET POLICY",
    ),
    ("CREATE «TABLE» s (a INT)", "found 'TABLE' after CREATE; expected STREAM, CQ, FUNCTION, CONSTRAINT or CONSTRAINTS"),
    ("CREATE STREAM «(» a INT)", "expected a name for the stream"),
    ("CREATE STREAM s «a» INT", "found 'a' here; expected ("),
    ("CREATE STREAM s (a INT «b» INT)", "expected ) or ,"),
    ("CREATE STREAM s (a «NUMBER»)", "found 'NUMBER' as the type of a column; expected tinyint, smallint"),
    ("CREATE STREAM s (a «BIGIN»)", "Did you mean 'bigint'?"),
    ("CREATE STREAM s (a«)»", "column 'a' has no type; write for example a BIGINT"),
    (
        "CREATE STREAM s (a INT, UNIQUE (a, «b»))",
        "UNIQUE takes one column. UNIQUE (a), UNIQUE (b) would promise it of each column alone",
    ),
    ("CREATE STREAM s (a INT, WATERMARK a DELAY «BY» 5)", "found 'BY' after WATERMARK column; expected OF"),
    ("CREATE STREAM s (a INT, WATERMARK a DELAY OF «x»)", "expected a number"),
    ("CREATE STREAM s (a INT) «FROM» x", "expected USING, PUNCTUATIONS FROM, PARTITIONED BY, IDLE AFTER, VALID FOR, ON LATE ROWS"),
    ("CREATE STREAM s (a INT) USING feed «USING» feed", "this clause stands twice"),
    ("CREATE STREAM s (a INT) USING feed OPTIONS (rate«)»", "option 'rate' has no value"),
    ("CREATE STREAM s (a INT) ON «LAST» ROWS ERROR", "expected LATE ROWS, BAD ROWS, VIOLATION or BAD PUNCTUATION"),
    ("CREATE STREAM s (a INT) ON LATE ROWS «DROP»", "found 'DROP' after ON LATE ROWS; expected QUARANTINE or ERROR"),
    ("CREATE STREAM s (a INT) ON VIOLATION «TRUSTED»", "QUARANTINE, ERROR or TRUST. Did you mean 'TRUST'?"),
    ("CREATE STREAM s (a INT) ON BAD PUNCTUATION «IGNORE»", "expected SKIP or ERROR"),
    ("CREATE STREAM s (a INT) IDLE «FOR» INTERVAL 1 MINUTE", "found 'FOR' after IDLE; expected AFTER"),
    ("CREATE STREAM s (a INT) IDLE AFTER 5 SECONDS «IDLE» AFTER 5 SECONDS", "this clause stands twice"),
    ("CREATE STREAM s (a INT) PARTITIONED BY a INTO «many» PARTITIONS", "expected a number of partitions"),
    ("CREATE STREAM s (a INT) PARTITIONED BY a INTO 4 «BUCKETS»", "expected PARTITIONS"),
    ("CREATE CQ q AS «UPDATE» x", "expected SELECT"),
    ("CREATE CQ q AS ()«,»", "expected SELECT"),
    ("CREATE CQ q AS SELECT a FROM («)»", "found ')' here; expected SELECT"),
    (
        "CREATE CQ q «SELECT» 1",
        "found 'SELECT' before the select; expected AS, EMIT PARTIAL, END, VALID FOR, WEIGHT, SHOW TIMING, ON LATE ANSWERS "
        "or WITH QOS",
    ),
    ("CREATE CQ q ON «EARLY» ANSWERS KEEP AS SELECT a FROM s", "found 'EARLY' after ON; expected LATE"),
    ("CREATE CQ q ON LATE ANSWERS «DROP» AS SELECT a FROM s", "expected KEEP, QUARANTINE or ERROR"),
    ("CREATE CQ q ON LATE ANSWERS KEEP «ON» LATE ANSWERS KEEP AS SELECT a FROM s", "this clause stands twice"),
    ("CREATE CQ q BEGIN «soon» AS SELECT a FROM s", "an integer, Now or Infinity"),
    ("CREATE CQ q AS SELECT a FROM «WHERE» a > 1", "expected a stream, a query or '('"),
    ("CREATE CQ q AS SELECT a FROM s [«SLIDING» 5]", "expected RANGE, ROWS, ROW, UNBOUNDED, LANDMARK or FIXED"),
    ("CREATE CQ q AS SELECT a FROM s [RANGE «]»", "found ']' here; expected a number"),
    ("CREATE CQ q AS SELECT a FROM s [RANGE 5 MINUTES «(»]", "expected ADVANCE, MOVE, TUMBLING, SLIDE PER TUPLE or ]"),
    ("CREATE CQ q AS SELECT a FROM s [RANGE 5 SLIDE PER «ROW»]", "found 'ROW' after SLIDE; expected TUPLE"),
    ("CREATE CQ q AS (SELECT a FROM s «OUTPUT» TO console", "expected )"),
    ("CREATE CQ q AS SELECT a FROM s «)»", "')' is not expected here; is a comma, an operator or ';' missing?"),
    ("«SELECT» a FROM s", "a query of an application needs a name: CREATE CQ name AS SELECT …"),
]


@pytest.mark.parametrize(("marked", "message"), STATEMENTS)
def test_a_statement_that_cannot_be_read_names_word_and_legal_words(marked: str, message: str) -> None:
    check(marked, "language.syntax", message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE CQ q AS SELECT a FROM s WHERE a >;", "something is missing before the end of the statement"),
        ("CREATE CQ q AS SELECT a FROM s OUTPUT TO;", "found the end of the statement"),
        ("CREATE CQ q AS SELECT a FROM s WHERE (a > 1", "found the end of the statement; expected )"),
        ("CREATE", "found the end of the statement after CREATE; expected STREAM, CQ, FUNCTION, CONSTRAINT or CONSTRAINTS"),
        ("CREATE STREAM s (a INT", "found the end of the statement"),
        ("CREATE CQ q AS SELECT 'a FROM s", "a quoted text or a comment is opened and not closed"),
    ],
)
def test_a_statement_that_ends_too_early_says_so(text: str, message: str) -> None:
    with pytest.raises(SyntaxMistake) as caught:
        parse_application(text)
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.line == 1


DECLARATIONS = [
    ("CREATE STREAM s (a INT, «A» INT)", "plan.declaration", "column 'A' is declared twice"),
    ("CREATE STREAM s (a INT, UNIQUE («b»))", "language.unknown-column", "stream 's' has no column 'b'; it has a, ts."),
    ("CREATE STREAM s (a INT, «ts» TIMESTAMP)", "plan.declaration", "is 'ts' the event time? Write WATERMARK ts DELAY OF"),
    ("CREATE STREAM s (a STRING, WATERMARK «a» DELAY OF 5)", "plan.declaration", "must be a timestamp or an integer"),
    ("CREATE STREAM s (a INT, WATERMARK «b» DELAY OF 5)", "language.unknown-column", "stream 's' has no column 'b'"),
    ("CREATE STREAM s (a INT, WATERMARK a DELAY OF «-5»)", "plan.declaration", "a delay cannot be negative"),
    ("CREATE STREAM s (a INT, WATERMARK a DELAY OF 5 «SECONDS»)", "plan.window", "write 5 without 'SECONDS'"),
    ("CREATE STREAM s (a TIMESTAMP, WATERMARK a DELAY OF «5»)", "plan.window", "write for example 5 SECONDS"),
    ("CREATE STREAM s (a TIMESTAMP, WATERMARK a DELAY OF 5 «SECUNDS»)", "language.syntax", "Did you mean 'seconds'?"),
    ("CREATE STREAM s (a INT) PUNCTUATIONS FROM «m»", "language.unknown-column", "no column 'm'"),
    ("CREATE STREAM s (a INT) PUNCTUATIONS FROM «a»", "plan.declaration", "declare it STRING"),
    ("CREATE STREAM s (a INT) ON BAD PUNCTUATION «SKIP»", "plan.declaration", "add PUNCTUATIONS FROM column"),
    ("CREATE STREAM s (a INT) PARTITIONED BY «p» POSITION a", "language.unknown-column", "no column 'p'"),
    ("CREATE STREAM s (a INT) IDLE AFTER INTERVAL «0» SECONDS", "plan.declaration", "longer than 0"),
    (
        "CREATE STREAM s (a INT, WATERMARK a DELAY OF 5) IDLE AFTER «10»",
        "plan.declaration",
        "write for example 10 SECONDS",
    ),
    ("CREATE STREAM s (a INT) PARTITIONED BY a INTO «0» PARTITIONS", "plan.declaration", "write 1 to 65,536"),
    ("CREATE STREAM s (a INT);\nCREATE STREAM «S» (a INT)", "plan.declaration", "declared twice, first in line 1"),
]

ASKED = [
    ("VALID FOR INTERVAL «0» SECONDS", "a validity is longer than 0"),
    ("VALID FOR INTERVAL «-3» SECONDS", "a validity is longer than 0"),
    ("VALID FOR INTERVAL «3»", "a validity is a time; write for example VALID FOR INTERVAL 3 SECONDS"),
    ("VALID FOR INTERVAL «40000» DAYS", "a validity is at most 100 years long"),
    ("WEIGHT «0»", "a weight is a number above 0, found 0"),
    ("WEIGHT «-2»", "a weight is a number above 0, found -2"),
    ("WEIGHT «1e999»", "a weight is a number above 0, found 1e999"),
    ("WEIGHT «1e-999»", "a weight is a number above 0, found 1e-999"),
    ("ON LATE ANSWERS «QUARANTINE»", "no answer of this query is ever late; write for example VALID FOR INTERVAL 5 SECONDS"),
]


@pytest.mark.parametrize(("clause", "message"), ASKED)
def test_what_cannot_be_asked_is_refused_at_its_word(clause: str, message: str) -> None:
    check(f"CREATE STREAM s (a INT);\nCREATE CQ q {clause} AS SELECT a FROM s", "plan.declaration", message)


def test_a_stream_says_until_when_answers_are_of_use() -> None:
    stream = "CREATE STREAM s (a INT) VALID FOR INTERVAL 1 MINUTE AFTER ARRIVAL;"
    catalog = parse_application(f"{stream} CREATE CQ p AS SELECT a FROM s; CREATE CQ q ON LATE ANSWERS ERROR AS SELECT a FROM p")
    assert catalog.queries["q"].late_answers is LateAnswers.ERROR


@pytest.mark.parametrize(("marked", "code", "message"), DECLARATIONS)
def test_a_wrong_declaration_is_refused_at_its_word(marked: str, code: str, message: str) -> None:
    check(marked, code, message)


QUERIES = [
    ("SELECT item FROM «bit»", "language.unknown-stream", "no stream or query 'bit'; the application: it has bid, ask, step"),
    ("SELECT «pric» FROM bid", "language.unknown-column", "stream 'bid' has no column 'pric'; it has item, price, bidder, at. Did"),
    ("SELECT item FROM bid\nWHERE price > 3 AND\n  «prize» < 5", "language.unknown-column", "Did you mean 'price'?"),
    ("SELECT «c».item FROM bid b", "language.syntax", "FROM has no source 'c'; it has b."),
    ("SELECT «c».* FROM bid b", "language.syntax", "FROM has no source 'c'"),
    ("SELECT «price» FROM bid, ask WHERE bid.item = ask.item", "language.syntax", "ambiguous; write one of bid.price, ask.price"),
    ("SELECT «foo» FROM bid b, ask a WHERE b.item = a.item", "language.unknown-column", "it has b.item, b.price"),
    ("SELECT a.item FROM bid a, «ask» a WHERE a.item = 1", "language.syntax", "'a' stands twice in FROM"),
    ("SELECT item FROM bid WHERE «bidder» > 3", "language.type", ""),
    ("SELECT item FROM bid WHERE «item» + 1", "language.type", "a condition must be true or false"),
    ("SELECT «squareroot»(price) FROM bid", "language.syntax", "there is no function 'squareroot'"),
    ("SELECT item FROM bid WHERE «count»(*) > 3", "language.syntax", "move this condition from WHERE or ON to HAVING"),
    ("SELECT item, «price», count(*) FROM bid [RANGE 1 DAY] GROUP BY item", "language.syntax", "neither in GROUP BY nor"),
    ("SELECT item FROM bid [RANGE 1 DAY] GROUP BY item HAVING «price» > 3", "language.syntax", "or write max(price)"),
    ("SELECT «count»() FROM bid [RANGE 1 DAY]", "language.syntax", "count() aggregates nothing; write count(column)"),
    ("SELECT sum(«bidder») FROM bid [RANGE 1 DAY]", "language.type", "takes numbers"),
    ("SELECT item FROM bid [RANGE 1 DAY] GROUP BY «1»", "language.syntax", "no positions of the select list"),
    ("SELECT item FROM bid [RANGE 1 DAY] GROUP BY item, «sum»(price)", "language.syntax", "cannot be a group key"),
    ("SELECT item FROM bid «HAVING» item > 3", "language.syntax", "HAVING needs GROUP BY or an aggregate; use WHERE"),
    ("SELECT item, price AS «item» FROM bid", "language.syntax", "two columns of the answer are called 'item'"),
    ("SELECT b.item, a.«item» FROM bid b, ask a WHERE b.item = a.item", "language.syntax", "another name with AS"),
    ("SELECT item FROM bid ORDER BY «item»", "language.syntax", "ORDER BY is not available on streams"),
    ("SELECT item FROM bid LIMIT «5»", "language.syntax", "LIMIT is not available on streams"),
    ("SELECT bid.item FROM bid NATURAL JOIN «ask»", "language.syntax", "NATURAL JOIN is not available"),
    (
        "SELECT bid.item FROM bid RIGHT SEMI JOIN «ask» ON bid.item = ask.item",
        "language.syntax",
        "RIGHT SEMI JOIN is not available",
    ),
    (
        "SELECT bid.item FROM bid, «ask» LEFT JOIN ask b ON b.item = ask.item",
        "language.syntax",
        "write JOIN ask ON … instead of a comma",
    ),
    (
        "SELECT bid.item FROM bid LEFT JOIN «ask» ON bid.price < ask.price",
        "plan.invalid",
        "LEFT JOIN ask has no equality in its ON",
    ),
    (
        "SELECT bid.item FROM bid ANTI JOIN ask ON bid.item = ask.item WHERE «ask».price > 3",
        "language.syntax",
        "in the ON of that join",
    ),
    ("SELECT item FROM bid WHERE EXISTS (SELECT «item» FROM ask)", "language.syntax", "write LEFT SEMI JOIN … ON instead"),
    ("SELECT bid.item FROM bid JOIN ask USING («item»)", "language.syntax", "write JOIN … ON a.x = b.y"),
    ("SELECT «item» FROM bid EXCEPT SELECT item FROM ask", "language.syntax", "EXCEPT is not available on streams: UNION is"),
    ("SELECT b.item FROM bid b, «ask» a WHERE b.price < a.price", "plan.invalid", "such as b.item = a.item to WHERE or ON"),
    ("SELECT b.item FROM bid b, (SELECT «item» FROM ask) WHERE b.item = 1", "language.syntax", "needs a name: (SELECT …) AS a"),
    ("SELECT b.item FROM bid b, «step» s WHERE b.item = s.n", "plan.invalid", "one query cannot compare them"),
    ("SELECT «1»", "language.syntax", "the select has no FROM"),
    ("SELECT DISTINCT FROM «bid»", "language.syntax", "the select list is empty"),
    ("SELECT item + «FROM» bid", "language.syntax", "something is missing before 'FROM'"),
    ("SELECT cast(item AS «)» FROM bid", "language.syntax", "found ')'; expected TYPE"),
    ("«WITH» x AS (SELECT item FROM bid) SELECT item FROM x", "language.syntax", "give the inner select a name"),
]


@pytest.mark.parametrize(("marked", "code", "message"), QUERIES)
def test_a_wrong_query_is_refused_at_its_word(marked: str, code: str, message: str) -> None:
    check(STREAMS + "CREATE CQ q AS " + marked, code, message)


WINDOWS = [
    ("SELECT count(*) FROM «bid»", "it would block for ever. Write a window, such as bid [RANGE 1 MINUTE], or declare on 'bid'"),
    ("SELECT count(*) FROM bid [RANGE «5»]", "'5' has no unit, and the stream has clock time; write for example 5 SECONDS"),
    ("SELECT count(*) FROM step [RANGE 5 «MINUTES»]", "an integer without units; write 5 without 'MINUTES'"),
    ("SELECT count(*) FROM bid [RANGE «0.1» microseconds]", "0.1 is not a whole number of units"),
    ("SELECT count(*) FROM bid [ROW 5 «MINUTES»]", "a ROW window counts rows"),
    ("SELECT count(*) FROM step «[»RANGE 0]", "a window of 0 time holds nothing"),
    ("SELECT count(*) FROM step «[»ROW 0]", "a window of 0 rows holds nothing"),
    ("SELECT count(*) FROM step «[»RANGE 5, ADVANCE 0]", "ADVANCE 0 never moves the window"),
    ("SELECT count(*) FROM step «[»RANGE 5 MOVE (1, -1)]", "opposite directions (1, -1); legal movements are"),
    ("SELECT count(*) FROM step «[»RANGE 5 MOVE (-1, -1)]", "the stream is not archived"),
    ("SELECT count(*) FROM step «[»RANGE 5 MOVE (2, 1)]", "shrinks to nothing before the query ends"),
    ("SELECT count(*) FROM step «[»LANDMARK RANGE 5]", "LANDMARK needs ADVANCE"),
    ("SELECT count(*) FROM step «[»RANGE 5, ADVANCE 2 TUMBLING]", "ADVANCE and TUMBLING say different things"),
    ("SELECT count(*) FROM step «[»FIXED RANGE 5, ADVANCE 2]", "ADVANCE and FIXED say different things"),
    ("SELECT count(*) FROM step «[»RANGE 100000000, ADVANCE 1]", "a row would be in 100,000,000 windows"),
    ("SELECT v FROM step «[»RANGE 5]", "its window would do nothing; leave the window out"),
    ("SELECT v FROM step «[»RANGE 5] UNION ALL SELECT v FROM step [RANGE 5]", "its window would do nothing"),
    ("SELECT x.v FROM (SELECT v FROM step «[»ROWS 5]) x", "its window would do nothing"),
    ("SELECT «v» FROM step [RANGE 5] UNION SELECT v FROM step [RANGE 6]", "different windows (tumbling 5; tumbling 6)"),
    ("SELECT «v» FROM step [RANGE 5] UNION SELECT v FROM step", "different windows (tumbling 5; unbounded)"),
    ("SELECT «v» FROM step [ROWS 5] UNION SELECT v FROM step [ROWS 5]", "UNION takes windows of time"),
    (
        "SELECT «count»(*) FROM step [RANGE 5, ADVANCE 1] UNION SELECT count(*) FROM step [RANGE 5, ADVANCE 1]",
        "needs tumbling windows",
    ),
    ("SELECT «window_start»() FROM step [LANDMARK RANGE 5, ADVANCE 1]", "without BEGIN a landmark window holds everything"),
    ("SELECT count(*) FROM bid «[»FIXED RANGE 1 HOUR]", "without BEGIN that would be 1970"),
    ("SELECT count(*) FROM bid «[»RANGE 1 HOUR MOVE (1 MINUTE, 2 MINUTES)]", "without BEGIN that would be 1970"),
    ("SELECT count(*) FROM step «[»RANGE 5 SLIDE PER TUPLE]", "write ADVANCE with the step you need"),
    ("SELECT b.item FROM bid b «[»ROW 5, ADVANCE 5], ask a WHERE b.item = a.item", "holds the last rows and slides with each"),
    ("SELECT b.item FROM bid b «[»ROW -5], ask a WHERE b.item = a.item", "a window cannot hold -5 rows"),
    ("SELECT b.item FROM bid b LEFT JOIN ask a «[»ROW 5] ON b.item = a.item", "joins takes no ROW windows; use RANGE"),
    ("SELECT b.item FROM bid b «[»PARTITION BY item RANGE 5 DAYS], ask a WHERE b.item = a.item", "leave PARTITION BY out"),
    (
        "SELECT count(*) FROM «bid» b [RANGE 5 DAYS, ADVANCE 1 DAY], ask a [RANGE 5 DAYS, ADVANCE 1 DAY] WHERE b.item = a.item",
        "do not overlap",
    ),
    ("SELECT «window_start»(), item FROM ask GROUP BY item", "window_start() has no value without a window"),
    ("SELECT DISTINCT «item» FROM bid [RANGE 1 HOUR, ADVANCE 1 MINUTE] GROUP BY item", "select DISTINCT from it"),
    ("SELECT DISTINCT «price» FROM bid [PARTITION BY item ROW 5]", "add it to the select list"),
]


@pytest.mark.parametrize(("marked", "message"), WINDOWS)
def test_a_window_that_cannot_be_evaluated_is_refused_at_its_word(marked: str, message: str) -> None:
    check(STREAMS + "CREATE CQ q AS " + marked, "plan.window", message)


def test_an_unknown_unit_lists_the_legal_ones() -> None:
    marked = STREAMS + "CREATE CQ q AS SELECT count(*) FROM bid [RANGE 5 «fortnights»]"
    check(marked, "language.syntax", "expected microseconds, milliseconds, seconds, minutes, hours, days or weeks")


def test_an_unknown_partition_column_is_named() -> None:
    marked = STREAMS + "CREATE CQ q AS SELECT count(*) FROM bid [PARTITION BY «items» ROW 5]"
    check(marked, "language.unknown-column", "Did you mean 'item'?")


LIVES = [
    ("BEGIN «'10:00'»", "plan.window", "which was not given; pass now=…, or write a date"),
    ("BEGIN «Now»", "plan.window", "pass now=…"),
    ("BEGIN «Infinity»", "plan.window", "never runs"),
    ("BEGIN '2026-01-02' END «'2026-01-01'»", "plan.window", "does not lie after BEGIN"),
    ("BEGIN «'tomorrow'»", "language.syntax", "'YYYY-MM-DD HH:MM:SS', 'HH:MM', Now or Infinity"),
]


@pytest.mark.parametrize(("marked", "code", "message"), LIVES)
def test_a_life_span_that_never_is_gets_refused(marked: str, code: str, message: str) -> None:
    check(STREAMS + f"CREATE CQ q {marked} AS SELECT item FROM bid", code, message)


def test_a_clock_time_of_no_day_is_refused() -> None:
    check(STREAMS + "CREATE CQ q BEGIN «'25:00'» AS SELECT item FROM bid", "language.syntax", "is no clock time", now=0)


def test_a_timestamp_for_an_integer_stream_is_refused() -> None:
    marked = STREAMS + "CREATE CQ q BEGIN «'2026-01-01'» AS SELECT n FROM step"
    check(marked, "language.syntax", "as a time of this integer-time stream")


def test_queries_that_read_each_other_are_refused() -> None:
    check("CREATE CQ a AS SELECT x FROM b; CREATE CQ b AS SELECT x FROM «a»", "plan.declaration", "in a circle: a -> b -> a")


def test_mistakes_without_a_word_of_their_own_stand_at_the_name_of_the_query() -> None:
    keys = "CREATE CQ «q» AS SELECT b.item FROM bid b, step2 s WHERE b.item = s.n;"
    step = "CREATE STREAM step2 (n INT, at TIMESTAMP, WATERMARK at DELAY OF 1 SECOND);"
    check(STREAMS + step + keys, "plan.invalid", "differ in type; CAST one of them")


MISLED = [
    (
        "CREATE CQ q AS SELECT count(*) AS n FROM bid [RANGE «'11:30'»]",
        "language.syntax",
        "write 11 HOURS 30 MINUTES, or use BEGIN and END",
    ),
    (
        "CREATE CQ q AS SELECT count(*) AS n FROM bid [RANGE «'10 minutes'»]",
        "language.syntax",
        "write the number and its unit without quotes",
    ),
    (
        "CREATE CQ q BEGIN '2026-05-01 10:00' END «'2026-05-01 08:00'» AS SELECT item FROM bid",
        "plan.window",
        "END 2026-05-01 08:00 does not lie after BEGIN 2026-05-01 10:00; give a later one",
    ),
    ("CREATE CQ q AS SELECT item FROM bid WHERE «item»", "language.type", "a condition must be true or false; 'item' is BIGINT"),
    (
        "CREATE STREAM z (a BIGINT, m BIGINT, WATERMARK a DELAY OF 0) PUNCTUATIONS FROM «m»",
        "plan.declaration",
        "column 'm' is BIGINT",
    ),
    (
        "CREATE CQ q AS SELECT «lenght»(bidder) AS n FROM bid",
        "language.syntax",
        "there is no function 'lenght'. Did you mean 'length'?",
    ),
    (
        "CREATE CQ q AS SELECT «regexp_extract»(bidder, 'x', 1) AS n FROM bid",
        "language.syntax",
        "there is no function 'regexp_extract'.",
    ),
]


@pytest.mark.parametrize(("marked", "code", "message"), MISLED)
def test_mistakes_speak_of_what_was_written(marked: str, code: str, message: str) -> None:
    check(STREAMS + marked, code, message)


def test_the_whole_message_reads_as_promised() -> None:
    text = STREAMS + "CREATE CQ slow_cars AS SELECT item FROM bid\n  WHERE pricee < 20"
    with pytest.raises(UserError) as caught:
        parse_application(text)
    assert str(caught.value) == (
        "language.unknown-column  query 'slow_cars', line 6, column 9\n"
        "    WHERE pricee < 20\n"
        "          ^^^^^^\n"
        "stream 'bid' has no column 'pricee'; it has item, price, bidder, at. Did you mean 'price'?"
    )


def test_a_single_query_is_parsed_over_a_catalog_without_entering_it() -> None:
    catalog = parse_application(STREAMS)
    assert parse_query("SELECT item FROM bid WHERE price > 3", catalog).name == "query"
    assert parse_query("CREATE CQ expensive AS SELECT item FROM bid WHERE price > 3;", catalog).name == "expensive"
    assert not catalog.queries
    with pytest.raises(SyntaxMistake, match="exactly one query"):
        parse_query("SELECT item FROM bid; SELECT item FROM bid", catalog)
    with pytest.raises(SyntaxMistake, match="exactly one query"):
        parse_query("CREATE STREAM s (a INT)", catalog)
    with pytest.raises(SyntaxMistake, match="exactly one query"):
        parse_query("", catalog)


def test_names_declared_before_in_a_catalog_are_not_declared_again() -> None:
    with pytest.raises(InvalidDeclaration, match="declared twice"):
        parse_application("CREATE STREAM s (a INT); CREATE CQ s AS SELECT a FROM s")


def test_an_empty_application_is_an_empty_catalog() -> None:
    assert parse_statements(" ;; -- nothing\n /* at all */ ;", "shop") == []
    assert parse_application("").names() == []


def test_a_window_that_holds_nothing_is_refused() -> None:
    with pytest.raises(InvalidWindow):
        parse_application(STREAMS + "CREATE CQ q AS SELECT DISTINCT item FROM bid [ROW 0]")
