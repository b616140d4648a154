-- only events of types the pattern names, and of these only what some place of the pattern takes
CREATE STREAM e (t STRING, id BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ typed AS EVENT SEQ(`1` a, `2` b, !(`3` c)) FROM e TYPE t WHERE [id] AND a.v < b.v WITHIN 60 RETURN a.v, b.v;
----
typed
PatternMatch SEQ(1 a, 2 b, !(3 c)) by id [within 60]
  . skip-till-any-match
  . where a.v < b.v
  . shows a_v = a.v, b_v = b.v
  Scan e
=>
PatternMatch SEQ(1 a, 2 b, !(3 c)) by id [within 60]
  . skip-till-any-match
  . where a.v < b.v
  . shows a_v = a.v, b_v = b.v
  Select t IN ('1', '2', '3')
    Scan e

====
-- conditions on single events; a place without condition takes all events of its type, and NULL meets none
CREATE STREAM e (t STRING, id BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ conditional AS EVENT SEQ(`1` a, `2`+ b[], `1` c) FROM e TYPE t
  WHERE [id] AND skip-till-next-match AND a.v > 1 AND c.v < 4 AND c.v > 0 AND b[i].v > b[i-1].v AND b.v < 5 WITHIN 60 RETURN a.v, c.v;
----
conditional
PatternMatch SEQ(1 a, 2+ b[], 1 c) by id [within 60]
  . skip-till-next-match
  . where a.v > 1
  . where c.v < 4
  . where c.v > 0
  . where b[i].v > b[i-1].v
  . where b[i].v < 5
  . shows a_v = a.v, c_v = c.v
  Scan e
=>
PatternMatch SEQ(1 a, 2+ b[], 1 c) by id [within 60]
  . skip-till-next-match
  . where a.v > 1
  . where c.v < 4
  . where c.v > 0
  . where b[i].v > b[i-1].v
  . where b[i].v < 5
  . shows a_v = a.v, c_v = c.v
  Select t = '1' AND (v > 1 OR v < 4 AND v > 0) OR t = '2' AND v < 5
    Scan e

====
-- streams of one type each are filtered by conditions alone
CREATE STREAM a (id BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (id BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ merged AS EVENT SEQ(a x, b y) WHERE [id] AND x.v > 2 WITHIN 60 RETURN x.v, y.w;
CREATE CQ alone AS EVENT SEQ(b x, b y) WHERE [id] AND x.w > 2 AND y.w < 3 WITHIN 60 RETURN x.w;
----
merged
PatternMatch SEQ(a x, b y) by id [within 60]
  . skip-till-any-match
  . where x.v > 2
  . shows x_v = x.v, y_w = y.w
  Merged 2 streams of events
    Project event_type = 'a', id, v, w = CAST(NULL AS BIGINT)
      Scan a
    Project event_type = 'b', id, v = CAST(NULL AS BIGINT), w
      Scan b
=>
PatternMatch SEQ(a x, b y) by id [within 60]
  . skip-till-any-match
  . where x.v > 2
  . shows x_v = x.v, y_w = y.w
  Merged 2 streams of events
    Select v > 2
      Project event_type = 'a', id, v, w = CAST(NULL AS BIGINT)
        Scan a
    Project event_type = 'b', id, v = CAST(NULL AS BIGINT), w
      Scan b

alone
PatternMatch SEQ(b x, b y) by id [within 60]
  . skip-till-any-match
  . where x.w > 2
  . where y.w < 3
  . shows x_w = x.w
  Project event_type = 'b', id, w
    Scan b
=>
PatternMatch SEQ(b x, b y) by id [within 60]
  . skip-till-any-match
  . where x.w > 2
  . where y.w < 3
  . shows x_w = x.w
  Select w > 2 OR w < 3
    Project event_type = 'b', id, w
      Scan b

====
-- under contiguity every event may break a match; while silence ends traces an event that fails its condition still speaks
CREATE STREAM e (t STRING, id BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ contiguous AS EVENT SEQ(`1` a, `2` b) FROM e TYPE t WHERE [id] AND partition-contiguity AND a.v > 1 WITHIN 60 RETURN a.v;
CREATE CQ silent AS EVENT SEQ(`1` a, `2` b) FROM e TYPE t WHERE [v] AND a.id > 1 RETURN a.id OPTIONS (trace_ttl 14);
----
contiguous
PatternMatch SEQ(1 a, 2 b) by id [within 60]
  . partition-contiguity
  . where a.v > 1
  . shows a_v = a.v
  Scan e
=> does not fire

silent
PatternMatch SEQ(1 a, 2 b) by v [trace_ttl 14]
  . skip-till-any-match
  . where a.id > 1
  . shows a_id = a.id
  Scan e
=>
PatternMatch SEQ(1 a, 2 b) by v [trace_ttl 14]
  . skip-till-any-match
  . where a.id > 1
  . shows a_id = a.id
  Select t IN ('1', '2')
    Scan e

====
-- constraints look at types that the pattern does not name, and at events that fail their condition
CREATE STREAM e (t STRING, id BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CONSTRAINT process ON e (id) AS PRIOR(`2`, `4`), TERMINAL(`5`) ON VIOLATION SHADOW;
CREATE CQ watched AS EVENT SEQ(`1` a, `2` b) FROM e TYPE t WHERE [id] AND a.v > 1 WITHIN 60 RETURN a.v, b.v;
----
watched
PatternMatch SEQ(1 a, 2 b) by id [within 60]
  . skip-till-any-match
  . where a.v > 1
  . shows a_v = a.v, b_v = b.v
  Scan e
=>
PatternMatch SEQ(1 a, 2 b) by id [within 60]
  . skip-till-any-match
  . where a.v > 1
  . shows a_v = a.v, b_v = b.v
  Select t IN ('1', '2', '4', '5')
    Scan e
