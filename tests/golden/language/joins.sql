-- three inputs with one common key become one join; further equalities are keys or remain
CREATE STREAM a (x BIGINT, u INT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM b (y BIGINT, v BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM c (z BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE CQ three AS SELECT a.x, v, c.w FROM a [RANGE 5], b [RANGE 6], c [RANGE 7] WHERE x = y AND y = z AND u > 3 AND b.w < c.w;
CREATE CQ two_columns AS SELECT a.* FROM a, b WHERE x = y AND x = v;
CREATE CQ two_keys AS SELECT b.ts FROM b JOIN c ON y = z AND b.w = c.w AND b.v + c.w > 10;
CREATE CQ chain AS SELECT u, v, c.w FROM a [RANGE 5], b [RANGE 6], c [RANGE 7] WHERE x = y AND b.w = c.w AND a.u < b.v + c.z;
CREATE CQ chain_out_of_order AS SELECT a.x FROM a, c, b WHERE x = y AND b.w = c.w;
CREATE CQ computed AS SELECT a.x FROM a JOIN b ON CAST(a.u AS BIGINT) + 1 = b.v WHERE NOT (a.x > 3 OR a.x < 1);
CREATE CQ itself AS SELECT one.x, other.ts FROM a one [RANGE 5], a AS other [RANGE 5] WHERE one.x = other.x AND one.ts < other.ts;
CREATE CQ star AS SELECT l.*, other.ts AS until FROM a l, a other WHERE l.x = other.x;
----
three
Project x = a.x, v = b.v, w = c.w
  WindowJoin a.x = b.y = c.z [sliding 5 | sliding 6 | sliding 7]
    . where b.w < c.w
    Select a.u > 3
      Scan a
    Scan b
    Scan c

two_columns
Project x = a.x, u = a.u, ts = a.ts
  WindowJoin a.x = b.y [unbounded | unbounded]
    . where a.x = b.v
    Scan a
    Scan b

two_keys
Project ts = b.ts
  WindowJoin b.y = c.z and b.w = c.w [unbounded | unbounded]
    . where b.v + c.w > 10
    Scan b
    Scan c

chain
Project u = a.u, v = b.v, w = c.w
  MJoin a.x = b.y and b.w = c.w [sliding 5 | sliding 6 | sliding 7]
    . where a.u < b.v + c.z
    Scan a
    Scan b
    Scan c

chain_out_of_order
Project x = a.x
  WindowJoin b.w = c.w [unbounded | unbounded]
    WindowJoin a.x = b.y [unbounded | unbounded]
      Scan a
      Scan b
    Scan c

computed
Project x = a.x
  WindowJoin CAST(a.u AS BIGINT) + 1 = b.v [unbounded | unbounded]
    Project a.x, a.u, a.ts, CAST(a.u AS BIGINT) + 1 = CAST(a.u AS BIGINT) + 1
      Select NOT (a.x > 3 OR a.x < 1)
        Scan a
    Scan b

itself
Project x = one.x, ts = other.ts
  WindowJoin one.x = other.x [sliding 5 | sliding 5]
    . where one.ts < other.ts
    Scan a as one
    Scan a as other

star
Project x = l.x, u = l.u, ts = l.ts, until = other.ts
  WindowJoin l.x = other.x [unbounded | unbounded]
    Scan a as l
    Scan a as other
