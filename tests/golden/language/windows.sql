-- every form of window on an aggregate, over an integer timestamp
CREATE STREAM s (k BIGINT, v DOUBLE, ts BIGINT, ORDERED (k), WATERMARK ts DELAY OF 2);
CREATE CQ tumbling AS SELECT count(*) FROM s [RANGE 10];
CREATE CQ tumbling_in_words AS SELECT count(*) FROM s [RANGE 10 TUMBLING];
CREATE CQ sliding AS SELECT count(*) FROM s [RANGE 10, ADVANCE 4];
CREATE CQ hopping AS SELECT count(*) FROM s [RANGE 10, ADVANCE 14];
CREATE CQ moved AS SELECT count(*) FROM s [RANGE 10 MOVE (2, 4)];
CREATE CQ landmark AS SELECT count(*) FROM s [LANDMARK RANGE 10, ADVANCE 5];
CREATE CQ landmark_without_size AS SELECT count(*) FROM s [LANDMARK, ADVANCE 5];
CREATE CQ landmark_of_rows AS SELECT count(*) FROM s [LANDMARK ADVANCE 5 TUPLES];
CREATE CQ fixed AS SELECT count(*) FROM s [FIXED RANGE 10];
CREATE CQ fixed_rows AS SELECT count(*) FROM s [FIXED ROW 10];
CREATE CQ partitioned AS SELECT k, max(v) FROM s [PARTITION BY k ROW 3, ADVANCE 1] GROUP BY k;
CREATE CQ unbounded AS SELECT k, count(*) FROM s [UNBOUNDED] GROUP BY k;
CREATE CQ none AS SELECT k, count(*) FROM s GROUP BY k;
CREATE CQ shrinking END 30 AS SELECT count(*) FROM s [RANGE 10 MOVE (5, 4)];
CREATE CQ distinct_partition AS SELECT DISTINCT k AS key, v FROM s [PARTITION BY k RANGE 10];
----
tumbling
Project count(*)
  GroupBy (): count(*) [tumbling 10]
    Scan s

tumbling_in_words
Project count(*)
  GroupBy (): count(*) [tumbling 10]
    Scan s

sliding
Project count(*)
  GroupBy (): count(*) [sliding 10 advance 4]
    Scan s

hopping
Project count(*)
  GroupBy (): count(*) [hopping 10 advance 14]
    Scan s

moved
Project count(*)
  GroupBy (): count(*) [growing 10 move (2, 4)]
    Scan s

landmark
Project count(*)
  GroupBy (): count(*) [landmark 10 advance 5]
    Scan s

landmark_without_size
Project count(*)
  GroupBy (): count(*) [landmark 5 advance 5]
    Scan s

landmark_of_rows
Project count(*)
  GroupBy (): count(*) [landmark 5 rows advance 5]
    Scan s

fixed
Project count(*)
  GroupBy (): count(*) [fixed 10]
    Scan s

fixed_rows
Project count(*)
  GroupBy (): count(*) [fixed 10 rows]
    Scan s

partitioned
Project k, max(v)
  GroupBy k: max(v) [sliding 3 rows advance 1 partition by k]
    Scan s

unbounded
Project k, count(*)
  GroupBy k: count(*) [unbounded]
    Scan s

none
Project k, count(*)
  GroupBy k: count(*) [unbounded]
    Scan s

shrinking to 30
Project count(*)
  GroupBy (): count(*) [shrinking 10 move (5, 4)]
    . until 30
    Scan s

distinct_partition
Distinct [tumbling 10 partition by key]
  Project key = k, v
    Scan s

====
-- clock time has units, also several of them
CREATE STREAM s (k BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 1 MINUTE 30 SECONDS);
CREATE CQ long AS SELECT count(*) FROM s [RANGE 1 hour 30 minutes, ADVANCE 0.5 seconds];
CREATE CQ weeks AS SELECT count(*) FROM s [RANGE 2 weeks, ADVANCE 1 day];
CREATE CQ micros AS SELECT count(*) FROM s [RANGE INTERVAL 250 microseconds];
----
long
Project count(*)
  GroupBy (): count(*) [sliding 90 minutes advance 500 milliseconds]
    Scan s

weeks
Project count(*)
  GroupBy (): count(*) [sliding 2 weeks advance 1 day]
    Scan s

micros
Project count(*)
  GroupBy (): count(*) [tumbling 250 microseconds]
    Scan s

====
-- on joins: slide with each row by default, frames only when written
CREATE STREAM l (k BIGINT, id BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM r (k BIGINT, id BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE CQ frames BEGIN 0 END 8 AS SELECT l.id AS l, r.id AS r FROM l [RANGE 4, ADVANCE 2], r [RANGE 4, ADVANCE 2] WHERE l.k = r.k;
CREATE CQ tumble AS SELECT l.k, count(*) FROM l [RANGE 4 TUMBLING], r [RANGE 4 TUMBLING] WHERE l.k = r.k GROUP BY l.k;
CREATE CQ slide AS SELECT l.id AS l, r.id AS r FROM l [RANGE 4 SLIDE PER TUPLE], r [RANGE 0, ADVANCE 1 TUPLE] WHERE l.k = r.k;
CREATE CQ one_side AS SELECT l.id FROM l [RANGE 4], r [UNBOUNDED] WHERE l.k = r.k;
----
frames from 0 to 8
Project l = l.id, r = r.id
  WindowJoin l.k = r.k [sliding 4 advance 2 | sliding 4 advance 2]
    . from 0 to 8
    Scan l
    Scan r

tumble
Project k = l.k, count(*)
  GroupBy l.k: count(*) [tumbling 4]
    WindowJoin l.k = r.k [tumbling 4 | tumbling 4]
      Scan l
      Scan r

slide
Project l = l.id, r = r.id
  WindowJoin l.k = r.k [sliding 4 | sliding 0]
    Scan l
    Scan r

one_side
Project id = l.id
  WindowJoin l.k = r.k [sliding 4 | unbounded]
    Scan l
    Scan r
