-- what rejects NULL rejects rows without partner
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ becomes_inner AS SELECT v, w FROM a [RANGE 9] LEFT JOIN b [RANGE 5] ON a.k = b.k AND a.v <> 2 WHERE b.w > 3;
CREATE CQ becomes_left AS SELECT v, w FROM a [RANGE 9] FULL JOIN b [RANGE 5] ON a.k = b.k WHERE a.v IS NOT NULL AND coalesce(b.w, 0) < 6;
CREATE CQ becomes_inner_too AS SELECT v, w FROM a [RANGE 9] FULL JOIN b [RANGE 5] ON a.k = b.k WHERE a.v + b.w BETWEEN 2 AND 9;
CREATE CQ by_a_right_join AS SELECT v, w FROM a [RANGE 9, ADVANCE 3] RIGHT JOIN b [RANGE 9, ADVANCE 3] ON a.k = b.k WHERE a.v > 1 OR a.k IN (1, 2);
----
becomes_inner
Project v = a.v, w = b.w
  Select b.w > 3
    WindowJoin LEFT a.k = b.k [sliding 9 | sliding 5]
      . on a.v <> 2
      Scan a
      Scan b
=>
Project v = a.v, w = b.w
  Select b.w > 3
    WindowJoin a.k = b.k [sliding 9 | sliding 5]
      . where a.v <> 2
      . written as LEFT JOIN: a condition above rejects rows without partner
      Scan a
      Scan b

becomes_left
Project v = a.v, w = b.w
  Select a.v IS NOT NULL AND coalesce(b.w, 0) < 6
    WindowJoin FULL a.k = b.k [sliding 9 | sliding 5]
      Scan a
      Scan b
=>
Project v = a.v, w = b.w
  Select a.v IS NOT NULL AND coalesce(b.w, 0) < 6
    WindowJoin LEFT a.k = b.k [sliding 9 | sliding 5]
      . written as FULL JOIN: a condition above rejects rows without partner
      Scan a
      Scan b

becomes_inner_too
Project v = a.v, w = b.w
  Select a.v + b.w BETWEEN 2 AND 9
    WindowJoin FULL a.k = b.k [sliding 9 | sliding 5]
      Scan a
      Scan b
=>
Project v = a.v, w = b.w
  Select a.v + b.w BETWEEN 2 AND 9
    WindowJoin a.k = b.k [sliding 9 | sliding 5]
      . written as FULL JOIN: a condition above rejects rows without partner
      Scan a
      Scan b

by_a_right_join
Project v = a.v, w = b.w
  Select a.v > 1 OR a.k IN (1, 2)
    WindowJoin RIGHT a.k = b.k [sliding 9 advance 3 | sliding 9 advance 3]
      Scan a
      Scan b
=>
Project v = a.v, w = b.w
  Select a.v > 1 OR a.k IN (1, 2)
    WindowJoin a.k = b.k [sliding 9 advance 3 | sliding 9 advance 3]
      . written as RIGHT JOIN: a condition above rejects rows without partner
      Scan a
      Scan b

====
-- a condition that rows without partner may meet changes nothing
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ asks_for_them AS SELECT v, w FROM a [RANGE 9] LEFT JOIN b [RANGE 5] ON a.k = b.k WHERE b.w IS NULL;
CREATE CQ keeps_some AS SELECT v, w FROM a [RANGE 9] LEFT JOIN b [RANGE 5] ON a.k = b.k WHERE b.w > 3 OR a.v > 1;
CREATE CQ reads_the_other_side AS SELECT v, w FROM a [RANGE 9] LEFT JOIN b [RANGE 5] ON a.k = b.k WHERE a.v > 1;
CREATE CQ equal_or_both_null AS SELECT v, w FROM a [RANGE 9] LEFT JOIN b [RANGE 5] ON a.k = b.k WHERE NOT (a.v <=> b.w);
CREATE CQ without_columns_of_b AS SELECT v FROM a [RANGE 9] ANTI JOIN b [RANGE 5] ON a.k = b.k WHERE v > 3;
----
asks_for_them
Project v = a.v, w = b.w
  Select b.w IS NULL
    WindowJoin LEFT a.k = b.k [sliding 9 | sliding 5]
      Scan a
      Scan b
=> does not fire

keeps_some
Project v = a.v, w = b.w
  Select b.w > 3 OR a.v > 1
    WindowJoin LEFT a.k = b.k [sliding 9 | sliding 5]
      Scan a
      Scan b
=> does not fire

reads_the_other_side
Project v = a.v, w = b.w
  Select a.v > 1
    WindowJoin LEFT a.k = b.k [sliding 9 | sliding 5]
      Scan a
      Scan b
=> does not fire

equal_or_both_null
Project v = a.v, w = b.w
  Select NOT a.v <=> b.w
    WindowJoin LEFT a.k = b.k [sliding 9 | sliding 5]
      Scan a
      Scan b
=> does not fire

without_columns_of_b
Project v = a.v
  Select a.v > 3
    WindowJoin LEFT ANTI a.k = b.k [sliding 9 | sliding 5]
      Scan a
      Scan b
=> does not fire
