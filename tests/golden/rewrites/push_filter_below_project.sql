-- a filter on the result of a select list is a filter on what it is computed of
CREATE STREAM s (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ computed AS SELECT double FROM (SELECT k AS key, v * 2 AS double FROM s) t WHERE double > 6 AND key < 3;
CREATE CQ two_lists AS SELECT c FROM (SELECT b AS c FROM (SELECT k + v AS b FROM s) t) u WHERE c > 4;
CREATE CQ over_a_grouping AS SELECT n FROM (SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k) g WHERE n > 2;
----
computed
Project double
  Select double > 6 AND key < 3
    Project key = k, double = v * 2
      Scan s
=>
Project double
  Project key = k, double = v * 2
    Select v * 2 > 6 AND k < 3
      Scan s

two_lists
Project c
  Select c > 4
    Project c = b
      Project b = k + v
        Scan s
=>
Project c
  Project c = b
    Project b = k + v
      Select k + v > 4
        Scan s

over_a_grouping
Project n
  Select n > 2
    Project k, n = `count(*)`
      GroupBy k: count(*) [tumbling 10]
        Scan s
=>
Project n
  Project k, n = `count(*)`
    Select `count(*)` > 2
      GroupBy k: count(*) [tumbling 10]
        Scan s

====
-- it must not go below DISTINCT, and not into another query
CREATE STREAM s (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ firsts AS SELECT k FROM (SELECT DISTINCT k, v FROM s [ROWS 4]) d WHERE v > 2;
CREATE CQ counted AS SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k;
CREATE CQ often AS SELECT k FROM counted WHERE n > 2;
----
firsts
Project k
  Select v > 2
    Distinct [tumbling 4 rows]
      Project k, v
        Scan s
=> does not fire

counted
Project k, n = `count(*)`
  GroupBy k: count(*) [tumbling 10]
    Scan s
=> does not fire

often
Project k
  Select n > 2
    Reference counted
=> does not fire

====
-- a list that computes nothing keeps columns from crossing to functions; one that computes does not
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ kept AS SELECT k FROM (SELECT k, t FROM s) AS few WHERE wide(t) = 1;
CREATE CQ pushed AS SELECT k2 FROM (SELECT k + 1 AS k2, t FROM s) AS few WHERE wide(t) = 1;
----
kept
Project k
  Select wide(t) = 1
    Project k, t
      Scan s
=> does not fire

pushed
Project k2
  Select wide(t) = 1
    Project k2 = k + 1, t
      Scan s
=>
Project k2
  Project k2 = k + 1, t
    Select wide(t) = 1
      Scan s
