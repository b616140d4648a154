-- every input is filtered by its own names
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (x BIGINT, y BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ other_names AS SELECT k, v FROM (SELECT k, v FROM a UNION ALL SELECT x, y FROM b) u WHERE v > 3 AND k < 4;
----
other_names
Project k, v
  Select v > 3 AND k < 4
    Union of 2
      Project k, v
        Scan a
      Project x, y
        Scan b
=>
Project k, v
  Union of 2
    Select v > 3 AND k < 4
      Project k, v
        Scan a
    Select y > 3 AND x < 4
      Project x, y
        Scan b

====
-- UNION without ALL is a DISTINCT over a union; windows of rows count what a filter would remove
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (x BIGINT, y BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ once AS SELECT k FROM (SELECT k, v FROM a UNION SELECT x, y FROM b) u WHERE v > 3;
CREATE CQ of_rows AS SELECT n FROM (SELECT k, count(*) AS n FROM (SELECT k FROM a UNION ALL SELECT x FROM b) u [ROWS 3] GROUP BY k) g WHERE k < 3;
----
once
Project k
  Select v > 3
    Distinct [unbounded]
      Union of 2
        Project k, v
          Scan a
        Project x, y
          Scan b
=> does not fire

of_rows
Project n
  Select k < 3
    Project k, n = `count(*)`
      GroupBy k: count(*) [tumbling 3 rows]
        Union of 2
          Project k
            Scan a
          Project x
            Scan b
=> does not fire

====
-- functions and hints go along
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ q AS SELECT /*+ ORDER(policy = 'sweep') */ a FROM (SELECT t AS a, u AS b FROM s UNION ALL SELECT u, t FROM s) AS both WHERE wide(a) = 1 AND tidy(b) <> '3';
----
q
Project a
  Select wide(a) = 1 AND tidy(b) <> '3'
    Union of 2
      Project a = t, b = u
        Scan s
      Project u, t
        Scan s
=>
Project a
  Union of 2
    Select wide(a) = 1 AND tidy(b) <> '3'
      Project a = t, b = u
        Scan s
    Select wide(u) = 1 AND tidy(t) <> '3'
      Project u, t
        Scan s
