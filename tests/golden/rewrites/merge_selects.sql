-- a selection over a selection becomes one
CREATE STREAM s (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ twice AS SELECT more FROM (SELECT k + 1 AS more, v FROM s WHERE v > 1) t WHERE more < 5;
CREATE CQ thrice AS SELECT c FROM (SELECT b AS c FROM (SELECT k + v AS b FROM s WHERE k > 0) t WHERE b > 2) u WHERE c < 9;
----
twice
Project more
  Project more = k + 1, v
    Select k + 1 < 5
      Select v > 1
        Scan s
=>
Project more
  Project more = k + 1, v
    Select v > 1 AND k + 1 < 5
      Scan s

thrice
Project c
  Project c = b
    Project b = k + v
      Select k + v < 9
        Select k + v > 2
          Select k > 0
            Scan s
=>
Project c
  Project c = b
    Project b = k + v
      Select k > 0 AND k + v > 2 AND k + v < 9
        Scan s

====
-- a grouping or DISTINCT lies between: nothing to merge
CREATE STREAM s (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ grouped AS SELECT k, n FROM (SELECT k, count(*) AS n FROM s [RANGE 10] WHERE v > 1 GROUP BY k) g WHERE n > 1;
CREATE CQ firsts AS SELECT k FROM (SELECT DISTINCT k, v FROM s [RANGE 10] WHERE k > 0) d WHERE v > 2;
----
grouped
Project k, n
  Project k, n = `count(*)`
    Select `count(*)` > 1
      GroupBy k: count(*) [tumbling 10]
        Select v > 1
          Scan s
=> does not fire

firsts
Project k
  Select v > 2
    Distinct [tumbling 10]
      Project k, v
        Select k > 0
          Scan s
=> does not fire

====
-- a selection that calls functions stays above the one it was put on
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ guarded AS SELECT k FROM (SELECT k, t FROM s WHERE k > 1) AS few WHERE wide(t) = 1;
CREATE CQ below AS SELECT k FROM (SELECT k, t FROM s WHERE wide(t) = 1) AS few WHERE k > 1;
----
guarded
Project k
  Select wide(t) = 1
    Project k, t
      Select k > 1
        Scan s
=> does not fire

below
Project k
  Project k, t
    Select k > 1
      Select wide(t) = 1
        Scan s
=>
Project k
  Project k, t
    Select wide(t) = 1 AND k > 1
      Scan s
