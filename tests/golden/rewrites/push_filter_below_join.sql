-- conditions over one input go below, the others stay
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ over_a_list AS SELECT v FROM (SELECT a.v AS v, b.w AS w FROM a [RANGE 9], b [RANGE 5] WHERE a.k = b.k AND a.v <> b.w) j WHERE v > 1 AND w < 6 AND v < w;
CREATE CQ with_advance AS SELECT v FROM (SELECT a.v AS v, b.w AS w FROM a [RANGE 8, ADVANCE 4], b [RANGE 8, ADVANCE 4] WHERE a.k = b.k) j WHERE v + 1 > 2;
----
over_a_list
Project v
  Project v = a.v, w = b.w
    Select a.v > 1 AND b.w < 6 AND a.v < b.w
      WindowJoin a.k = b.k [sliding 9 | sliding 5]
        . where a.v <> b.w
        Scan a
        Scan b
=>
Project v
  Project v = a.v, w = b.w
    Select a.v < b.w
      WindowJoin a.k = b.k [sliding 9 | sliding 5]
        . where a.v <> b.w
        Select a.v > 1
          Scan a
        Select b.w < 6
          Scan b

with_advance
Project v
  Project v = a.v, w = b.w
    Select a.v + 1 > 2
      WindowJoin a.k = b.k [sliding 8 advance 4 | sliding 8 advance 4]
        Scan a
        Scan b
=>
Project v
  Project v = a.v, w = b.w
    WindowJoin a.k = b.k [sliding 8 advance 4 | sliding 8 advance 4]
      Select a.v + 1 > 2
        Scan a
      Scan b

====
-- what reads two inputs stays, and so does a filter on a count above its grouping
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ residual AS SELECT a.* FROM a [RANGE 9], b [RANGE 5] WHERE a.k = b.k AND a.v < b.w;
CREATE CQ counted AS SELECT n FROM (SELECT a.k AS k, count(*) AS n FROM a [RANGE 9], b [RANGE 9] WHERE a.k = b.k GROUP BY a.k) g WHERE n > 2;
----
residual
Project k = a.k, v = a.v, ts = a.ts
  WindowJoin a.k = b.k [sliding 9 | sliding 5]
    . where a.v < b.w
    Scan a
    Scan b
=> does not fire

counted
Project n
  Project k = a.k, n = `count(*)`
    Select `count(*)` > 2
      GroupBy a.k: count(*) [tumbling 9]
        WindowJoin a.k = b.k [sliding 9 | sliding 9]
          Scan a
          Scan b
=> does not fire
