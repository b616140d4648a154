-- conditions over one input go below, the others stay
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ over_a_list AS SELECT v FROM (SELECT a.v AS v, b.w AS w FROM a [RANGE 9], b [RANGE 5] WHERE a.k = b.k AND a.v <> b.w) j WHERE v > 1 AND w < 6 AND v < w;
CREATE CQ with_advance AS SELECT v FROM (SELECT a.v AS v, b.w AS w FROM a [RANGE 8, ADVANCE 4], b [RANGE 8, ADVANCE 4] WHERE a.k = b.k) j WHERE v + 1 > 2;
CREATE CQ row_windows AS SELECT v FROM (SELECT a.v AS v, b.w AS w FROM a [ROWS 8], b [RANGE 8] WHERE a.k = b.k) j WHERE v > 1 AND w < 6;
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

row_windows
Project v
  Project v = a.v, w = b.w
    Select a.v > 1 AND b.w < 6
      WindowJoin a.k = b.k [last 8 rows | sliding 8]
        Scan a
        Scan b
=>
Project v
  Project v = a.v, w = b.w
    Select a.v > 1
      WindowJoin a.k = b.k [last 8 rows | sliding 8]
        Scan a
        Select b.w < 6
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

====
-- in outer, semi and anti joins only where no answer is lost or won
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ left_join AS SELECT a.k, v, w FROM a [RANGE 9] LEFT JOIN b [RANGE 5] ON a.k = b.k AND v > 1 AND w < 4 WHERE v < 5 AND w IS NULL;
CREATE CQ right_join AS SELECT a.k, v, w FROM a [RANGE 9] RIGHT JOIN b [RANGE 5] ON a.k = b.k AND v > 1 AND w < 4 WHERE v < 5 AND w > 0;
CREATE CQ full_join AS SELECT a.k, v, w FROM a [RANGE 9] FULL JOIN b [RANGE 5] ON a.k = b.k AND v > 1 AND w < 4 WHERE coalesce(v, 2) < 5 AND coalesce(w, 2) > 0;
CREATE CQ semi_join AS SELECT a.k, v FROM a [RANGE 9] LEFT SEMI JOIN b [RANGE 5] ON a.k = b.k AND v > 1 AND w < 4 WHERE v < 5;
CREATE CQ anti_join AS SELECT a.k, v FROM a [RANGE 9] LEFT ANTI JOIN b [RANGE 5] ON a.k = b.k AND v > 1 AND w < 4 WHERE v < 5;

----
left_join
Project k = a.k, v = a.v, w = b.w
  Select a.v < 5 AND b.w IS NULL
    WindowJoin LEFT a.k = b.k [sliding 9 | sliding 5]
      . on a.v > 1 AND b.w < 4
      Scan a
      Scan b
=>
Project k = a.k, v = a.v, w = b.w
  Select b.w IS NULL
    WindowJoin LEFT a.k = b.k [sliding 9 | sliding 5]
      . on a.v > 1
      Select a.v < 5
        Scan a
      Select b.w < 4
        Scan b

right_join
Project k = a.k, v = a.v, w = b.w
  Select a.v < 5 AND b.w > 0
    WindowJoin RIGHT a.k = b.k [sliding 9 | sliding 5]
      . on a.v > 1 AND b.w < 4
      Scan a
      Scan b
=>
Project k = a.k, v = a.v, w = b.w
  Select a.v < 5
    WindowJoin RIGHT a.k = b.k [sliding 9 | sliding 5]
      . on b.w < 4
      Select a.v > 1
        Scan a
      Select b.w > 0
        Scan b

full_join
Project k = a.k, v = a.v, w = b.w
  Select coalesce(a.v, 2) < 5 AND coalesce(b.w, 2) > 0
    WindowJoin FULL a.k = b.k [sliding 9 | sliding 5]
      . on a.v > 1 AND b.w < 4
      Scan a
      Scan b
=> does not fire

semi_join
Project k = a.k, v = a.v
  Select a.v < 5
    WindowJoin LEFT SEMI a.k = b.k [sliding 9 | sliding 5]
      . on a.v > 1 AND b.w < 4
      Scan a
      Scan b
=>
Project k = a.k, v = a.v
  WindowJoin LEFT SEMI a.k = b.k [sliding 9 | sliding 5]
    Select a.v < 5
      Select a.v > 1
        Scan a
    Select b.w < 4
      Scan b

anti_join
Project k = a.k, v = a.v
  Select a.v < 5
    WindowJoin LEFT ANTI a.k = b.k [sliding 9 | sliding 5]
      . on a.v > 1 AND b.w < 4
      Scan a
      Scan b
=>
Project k = a.k, v = a.v
  WindowJoin LEFT ANTI a.k = b.k [sliding 9 | sliding 5]
    . on a.v > 1
    Select a.v < 5
      Scan a
    Select b.w < 4
      Scan b
