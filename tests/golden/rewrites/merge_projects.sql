-- lists over lists become one, and computed columns are computed once
CREATE STREAM s (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ renamed AS SELECT double + 1 AS more, key FROM (SELECT k AS key, v * 2 AS double FROM s) t;
CREATE CQ deeper AS SELECT c FROM (SELECT b AS c FROM (SELECT k + v AS b FROM s) t) u;
CREATE CQ a_column_read_twice AS SELECT x, x + 1 AS y FROM (SELECT k AS x FROM s) t;
----
renamed
Project more = double + 1, key
  Project key = k, double = v * 2
    Scan s
=>
Project more = v * 2 + 1, key = k
  Scan s

deeper
Project c
  Project c = b
    Project b = k + v
      Scan s
=>
Project c = k + v
  Scan s

a_column_read_twice
Project x, y = x + 1
  Project x = k
    Scan s
=>
Project x = k, y = k + 1
  Scan s

====
-- it must not fire where an expression would be computed twice
CREATE STREAM s (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ read_twice AS SELECT product, product + 1 AS more FROM (SELECT k * v AS product FROM s) t;
----
read_twice
Project product, more = product + 1
  Project product = k * v
    Scan s
=> does not fire

====
-- Catalyst can have the inner list of a list that calls functions
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ apart AS SELECT wide(v) AS w FROM (SELECT concat(t, u) AS v FROM s) AS both;
CREATE CQ together AS SELECT w + 1 AS x FROM (SELECT wide(t) AS w FROM s) AS both;
----
apart
Project w = wide(v)
  Project v = concat(t, u)
    Scan s
=> does not fire

together
Project x = w + 1
  Project w = wide(t)
    Scan s
=>
Project x = wide(t) + 1
  Scan s
