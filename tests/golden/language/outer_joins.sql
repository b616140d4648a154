-- ON decides who is a partner, WHERE what is answered
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM c (k BIGINT, x BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ left_join AS SELECT a.k, w FROM a [RANGE 5] LEFT JOIN b [RANGE 3] ON a.k = b.k AND a.v > 2 AND a.v < b.w WHERE a.v = 1 AND w IS NULL;
CREATE CQ right_join AS SELECT * FROM a x [RANGE 5] RIGHT OUTER JOIN (SELECT k AS kk, w FROM b) y [RANGE 3] ON x.k = y.kk;
CREATE CQ full_join AS SELECT coalesce(a.k, b.k) AS k FROM a [RANGE 8, ADVANCE 4] FULL OUTER JOIN b [RANGE 8, ADVANCE 4] ON a.k = b.k;
CREATE CQ semi_join AS SELECT * FROM a LEFT SEMI JOIN b ON a.k = b.k AND a.v < b.w;
CREATE CQ anti_join AS SELECT k FROM a ANTI JOIN b ON a.k = b.k + 1 WHERE v > 3;
CREATE CQ counted AS SELECT a.k, count(w) AS n FROM a [RANGE 5] LEFT JOIN b [RANGE 5] ON a.k = b.k GROUP BY a.k;
----
left_join
Project k = a.k, w = b.w
  Select a.v = 1 AND b.w IS NULL
    WindowJoin LEFT a.k = b.k [sliding 5 | sliding 3]
      . on a.v > 2 AND a.v < b.w
      Scan a
      Scan b

right_join
Project k = x.k, v = x.v, ts = x.ts, kk = y.kk, w = y.w
  WindowJoin RIGHT x.k = y.kk [sliding 5 | sliding 3]
    Scan a as x
    Project y.kk = kk, y.w = w
      Project kk = k, w
        Scan b

full_join
Project k = coalesce(a.k, b.k)
  WindowJoin FULL a.k = b.k [sliding 8 advance 4 | sliding 8 advance 4]
    Scan a
    Scan b

semi_join
Project k = a.k, v = a.v, ts = a.ts
  WindowJoin LEFT SEMI a.k = b.k [unbounded | unbounded]
    . on a.v < b.w
    Scan a
    Scan b

anti_join
Project k = a.k
  Select a.v > 3
    WindowJoin LEFT ANTI a.k = b.k + 1 [unbounded | unbounded]
      Scan a
      Project b.k, b.w, b.ts, b.k + 1 = b.k + 1
        Scan b

counted
Project k = a.k, n = `count(b.w)`
  GroupBy a.k: count(b.w) [tumbling 5]
    WindowJoin LEFT a.k = b.k [sliding 5 | sliding 5]
      Scan a
      Scan b

warning: query 'counted': the aggregate, DISTINCT or UNION over the join uses tumbling windows as long as the longest of its inputs; for another one write the join as a query of its own and give its result a window

====
-- two by two in the order written; inner joins in front of the first other one may be one join
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM c (k BIGINT, x BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ chain AS SELECT a.k, x FROM a [RANGE 5] LEFT JOIN b [RANGE 3] ON a.k = b.k LEFT JOIN c [RANGE 7] ON b.w = c.k;
CREATE CQ full_chain AS SELECT coalesce(a.k, b.k) AS k, x FROM a [RANGE 5] FULL JOIN b [RANGE 3] ON a.k = b.k LEFT JOIN c [RANGE 7] ON coalesce(a.k, b.k) = c.k;
CREATE CQ inner_first AS SELECT a.k, d.v FROM a JOIN b ON a.k = b.k JOIN c ON b.k = c.k AND x > 2 LEFT JOIN a d ON d.k = x;
CREATE CQ inner_last AS SELECT a.k, x FROM a SEMI JOIN b ON a.k = b.k JOIN c ON a.k = c.k;

----
chain
Project k = a.k, x = c.x
  WindowJoin LEFT b.w = c.k [sliding 5 | sliding 7]
    . on c.ts <= a.ts + 5L AND (b.ts IS NULL OR c.ts <= b.ts + 3L)
    WindowJoin LEFT a.k = b.k [sliding 5 | sliding 3]
      Scan a
      Scan b
    Scan c

full_chain
Project k = coalesce(a.k, b.k), x = c.x
  WindowJoin LEFT coalesce(a.k, b.k) = c.k [sliding 5 | sliding 7]
    . on (a.ts IS NULL OR c.ts <= a.ts + 5L) AND (b.ts IS NULL OR c.ts <= b.ts + 3L)
    Project a.k, a.v, a.ts, b.k, b.w, b.ts, coalesce(a.k, b.k) = coalesce(a.k, b.k)
      WindowJoin FULL a.k = b.k [sliding 5 | sliding 3]
        Scan a
        Scan b
    Scan c

inner_first
Project k = a.k, v = d.v
  WindowJoin LEFT c.x = d.k [unbounded | unbounded]
    WindowJoin a.k = b.k = c.k [unbounded | unbounded | unbounded]
      Scan a
      Scan b
      Select c.x > 2
        Scan c
    Scan a as d

inner_last
Project k = a.k, x = c.x
  WindowJoin a.k = c.k [unbounded | unbounded]
    WindowJoin LEFT SEMI a.k = b.k [unbounded | unbounded]
      Scan a
      Scan b
    Scan c
