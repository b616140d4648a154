-- another key needs another stage; two queries share a join; answers of a query are read by another one
CREATE STREAM a (k BIGINT, v BIGINT, note STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ pairs AS SELECT a.v, b.w FROM a [RANGE 9], b [RANGE 5] WHERE a.k = b.k;
CREATE CQ same AS SELECT a.v + b.w AS total FROM a [RANGE 9], b [RANGE 5] WHERE a.k = b.k;
CREATE CQ per_w AS SELECT w, count(*) AS n FROM pairs [RANGE 10] WHERE v > 2 GROUP BY w;
CREATE CQ firsts AS SELECT DISTINCT v FROM a;
CREATE CQ plain AS SELECT v * 2 AS double FROM a WHERE note LIKE 'x%';
----
application stages: 2 rounds on 2 shards, state UNBOUNDED

query pairs
  Project v = a.v, w = b.w                        round 1, shared with per_w
    WindowJoin a.k = b.k [sliding 9 | sliding 5]  round 1 by a.k, shared with per_w, same
    . WJoin: windows on a and b; nobody closes the key
    . rows of a: a row goes once b is past its window of 9; rate(a) × (9 + 3)
    . rows of b: a row goes once a is past its window of 5; rate(b) × (5 + 3)
      Project a.k, a.v                            Catalyst
        Scan a                                    Catalyst
      Project b.k, b.w                            Catalyst
        Scan b                                    Catalyst

query same
  Project total = a.v + b.w                       round 1
    WindowJoin a.k = b.k [sliding 9 | sliding 5]  round 1 by a.k, shared with pairs, per_w
    . WJoin: windows on a and b; nobody closes the key
    . rows of a: a row goes once b is past its window of 9; rate(a) × (9 + 3)
    . rows of b: a row goes once a is past its window of 5; rate(b) × (5 + 3)
      Project a.k, a.v                            Catalyst
        Scan a                                    Catalyst
      Project b.k, b.w                            Catalyst
        Scan b                                    Catalyst

query per_w
  Project w, n = `count(*)`            round 2
    GroupBy w: count(*) [tumbling 10]  round 2 by w
    . groups: a window of 10 goes when event time has passed it; ≤ rate × (10 + 3)
      Select v > 2                     round 1
        Reference pairs                see there

query firsts
  Distinct [unbounded]  round 1 by v
  . rows that wait for earlier ones: none is older than 3; rate × 3
  . values: one row for each v; bounded only if the number of v is bounded; values of v (grows-with-keys)
    Project v           Catalyst
      Scan a            Catalyst

query plain
  Project double = v * 2   Catalyst
    Select note LIKE 'x%'  Catalyst
      Scan a               Catalyst

sources, as Catalyst reads them
  a -> round 1 by a.k
  . crosses: a.k = `k`, a.v = `v`
  b -> round 1 by b.k
  . crosses: b.k = `k`, b.w = `w`
  a -> round 1 by v
  . crosses: v
  a -> round 1 in any shard
  . crosses: double = try_multiply(`v`, 2L)
  . where: (`note` LIKE 'x%')

rows that need another key come round with the next micro-batch
  Select4, round 1 -> round 2 by w: v, w

memory of joins: rate × mean stay of a row
  WindowJoin1
  . memory of a: the rate is not declared
  . memory of b: the rate is not declared
