-- keys, conditions, arguments and partition columns stay; a list longer than needed gets shorter
CREATE STREAM a (k BIGINT, v BIGINT, note STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, x BIGINT, note STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ joined AS SELECT a.v FROM a [RANGE 9], b [RANGE 5] WHERE a.k = b.k AND a.v < b.w AND b.x > 1;
CREATE CQ counted AS SELECT k, sum(v) AS total FROM a [RANGE 10] GROUP BY k;
CREATE CQ partitioned AS SELECT max(w) AS top FROM b [PARTITION BY x ROWS 3];
CREATE CQ only_counted AS SELECT count(*) AS n FROM a [RANGE 10];
CREATE CQ shorter AS SELECT max(double) AS most FROM (SELECT k, v * 2 AS double, note FROM a) t [RANGE 10];
CREATE CQ both AS SELECT count(n) AS n FROM (SELECT k AS n, note FROM a UNION ALL SELECT w, note FROM b) u [RANGE 10];
----
joined
Project v = a.v
  WindowJoin a.k = b.k [sliding 9 | sliding 5]
    . where a.v < b.w
    Scan a
    Select b.x > 1
      Scan b
=>
Project v = a.v
  WindowJoin a.k = b.k [sliding 9 | sliding 5]
    . where a.v < b.w
    Project a.k, a.v
      Scan a
    Project b.k, b.w
      Select b.x > 1
        Scan b

counted
Project k, total = `sum(v)`
  GroupBy k: sum(v) [tumbling 10]
    Scan a
=>
Project k, total = `sum(v)`
  GroupBy k: sum(v) [tumbling 10]
    Project k, v
      Scan a

partitioned
Project top = `max(w)`
  GroupBy (): max(w) [tumbling 3 rows partition by x]
    Scan b
=>
Project top = `max(w)`
  GroupBy (): max(w) [tumbling 3 rows partition by x]
    Project w, x
      Scan b

only_counted
Project n = `count(*)`
  GroupBy (): count(*) [tumbling 10]
    Scan a
=>
Project n = `count(*)`
  GroupBy (): count(*) [tumbling 10]
    Project ts
      Scan a

shorter
Project most = `max(double)`
  GroupBy (): max(double) [tumbling 10]
    Project k, double = v * 2, note
      Scan a
=>
Project most = `max(double)`
  GroupBy (): max(double) [tumbling 10]
    Project double = v * 2
      Scan a

both
Project n = `count(n)`
  GroupBy (): count(n) [tumbling 10]
    Union of 2
      Project n = k, note
        Scan a
      Project w, note
        Scan b
=>
Project n = `count(n)`
  GroupBy (): count(n) [tumbling 10]
    Union of 2
      Project n = k
        Scan a
      Project w
        Scan b

====
-- nothing to prune: all is read, DISTINCT compares everything, and a query's answers belong to all its readers
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ everything AS SELECT * FROM a;
CREATE CQ firsts AS SELECT count(*) AS n FROM (SELECT DISTINCT k, v FROM a [RANGE 10]) d [RANGE 10];
CREATE CQ per_key AS SELECT k, count(*) AS n, max(v) AS top FROM a [RANGE 10] GROUP BY k;
CREATE CQ of_query AS SELECT max(n) AS most FROM per_key [RANGE 20];
----
everything
Project k, v, ts
  Scan a
=> does not fire

firsts
Project n = `count(*)`
  GroupBy (): count(*) [tumbling 10]
    Distinct [tumbling 10]
      Project k, v
        Scan a
=> does not fire

per_key
Project k, n = `count(*)`, top = `max(v)`
  GroupBy k: count(*), max(v) [tumbling 10]
    Scan a
=>
Project k, n = `count(*)`, top = `max(v)`
  GroupBy k: count(*), max(v) [tumbling 10]
    Project k, v
      Scan a

of_query
Project most = `max(n)`
  GroupBy (): max(n) [tumbling 20]
    Reference per_key
=> does not fire

====
-- declared columns stay, so that rows which break the declaration are found
CREATE STREAM a (id BIGINT, v BIGINT, note STRING, ts BIGINT, UNIQUE (id), WATERMARK ts DELAY OF 3);
CREATE CQ total AS SELECT sum(v) AS total FROM a [RANGE 10];
----
total
Project total = `sum(v)`
  GroupBy (): sum(v) [tumbling 10]
    Scan a
=>
Project total = `sum(v)`
  GroupBy (): sum(v) [tumbling 10]
    Project id, v
      Scan a

====
-- of the second input of a semi join only what ON reads
CREATE STREAM a (k BIGINT, v BIGINT, u BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, x BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ semi_join AS SELECT a.k FROM a [RANGE 9] LEFT SEMI JOIN b [RANGE 5] ON a.k = b.k AND v < w + 4;
CREATE CQ left_join AS SELECT a.k, x FROM a [RANGE 9] LEFT JOIN b [RANGE 5] ON a.k = b.k;

----
semi_join
Project k = a.k
  WindowJoin LEFT SEMI a.k = b.k [sliding 9 | sliding 5]
    . on a.v < b.w + 4
    Scan a
    Scan b
=>
Project k = a.k
  WindowJoin LEFT SEMI a.k = b.k [sliding 9 | sliding 5]
    . on a.v < b.w + 4
    Project a.k, a.v
      Scan a
    Project b.k, b.w
      Scan b

left_join
Project k = a.k, x = b.x
  WindowJoin LEFT a.k = b.k [sliding 9 | sliding 5]
    Scan a
    Scan b
=>
Project k = a.k, x = b.x
  WindowJoin LEFT a.k = b.k [sliding 9 | sliding 5]
    Project a.k
      Scan a
    Project b.k, b.x
      Scan b

====
-- what functions read crosses, and no more
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE FUNCTION tidy(x STRING) RETURNS STRING USING python OPTIONS (callable 'pyarrow.compute:utf8_trim_whitespace', kind 'arrow', cost '2e-6', after 'x IS NOT NULL');
CREATE STREAM s (k BIGINT, t STRING, u STRING, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ listed AS SELECT wide(t) AS w FROM s;
CREATE CQ filtered AS SELECT k FROM s WHERE wide(t) = 1;
----
listed
Project w = wide(t)
  Scan s
=>
Project w = wide(t)
  Project t
    Scan s

filtered
Project k
  Select wide(t) = 1
    Scan s
=>
Project k
  Select wide(t) = 1
    Project k, t
      Scan s
