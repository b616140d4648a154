-- UNION ALL keeps all rows, UNION the first of equal ones in the common window
CREATE STREAM a (x BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM b (x BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE CQ every AS SELECT x FROM a UNION ALL SELECT x FROM b UNION ALL SELECT x + 1 AS x FROM a WHERE x > 3;
CREATE CQ once AS (SELECT DISTINCT x FROM a [RANGE 10]) UNION (SELECT DISTINCT x FROM b [RANGE 10]);
CREATE CQ for_ever AS SELECT x FROM a UNION SELECT x FROM b;
CREATE CQ over AS SELECT x, count(*) FROM (SELECT x FROM a UNION ALL SELECT x FROM b) u [RANGE 10] GROUP BY x;
----
every
Union of 3
  Project x
    Scan a
  Project x
    Scan b
  Project x = x + 1
    Select x > 3
      Scan a

once
Distinct [tumbling 10]
  Union of 2
    Distinct [tumbling 10]
      Project x
        Scan a
    Distinct [tumbling 10]
      Project x
        Scan b

for_ever
Distinct [unbounded]
  Union of 2
    Project x
      Scan a
    Project x
      Scan b

over
Project x, count(*)
  GroupBy x: count(*) [tumbling 10]
    Union of 2
      Project x
        Scan a
      Project x
        Scan b
