CREATE STREAM event (kind STRING, order_id BIGINT, price DOUBLE, note STRING, ts TIMESTAMP,
  WATERMARK ts DELAY OF INTERVAL 2 SECONDS) USING feed OPTIONS (rate '100');
CREATE STREAM ShelfRead (tag_id BIGINT, product STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING feed;
CREATE STREAM CheckoutRead (tag_id BIGINT, till INT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING feed;
CREATE STREAM ExitRead (tag_id BIGINT, gate INT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND) USING feed;

-- a stream for each type; the condition on one event is tested before it is stored
CREATE CQ theft AS EVENT SEQ(ShelfRead s, !(CheckoutRead c), ExitRead x) WHERE [tag_id] AND s.product = 'razor'
  WITHIN 12 hours RETURN s.product, x.gate, match_start;

-- one stream with types; events in any order between two others
CREATE CQ priced AS EVENT SEQ(ReceiveOrder r, AND(Quote q, CheckStock c), Invoice i) FROM event TYPE kind
  WHERE [order_id] AND i.price > q.price WITHIN 1 day RETURN i.price - q.price AS rise;

-- a list that grows
CREATE CQ rising AS EVENT SEQ(Quote+ q[], Invoice i) FROM event TYPE kind WHERE skip-till-next-match AND [order_id]
  AND q[1].price > 10 AND q[i].price > q[i-1].price AND i.price < q[last].price AND count(q) > 2 WITHIN 10 minutes;

-- all candidates of a list at once, and each event once
CREATE CQ collapsed AS EVENT SEQ(ReceiveOrder r, Quote+ q[], Invoice i) FROM event TYPE kind WHERE [order_id] WITHIN 1 hour
  RETURN count(q) AS quotes, match_count OPTIONS (kleene 'collapse', dedup true, event_id 'note');

-- no window: silence ends a trace, and the state is bounded if every trace falls silent
CREATE CQ either AS EVENT OR(SEQ(Quote q, Cancel c), SEQ(Invoice i, Cancel d)) FROM event TYPE kind WHERE [order_id]
  OPTIONS (trace_ttl '1 hour');

----
application patterns: 1 round on 2 shards, state bounded

query theft
  PatternMatch SEQ(ShelfRead s, !(CheckoutRead c), ExitRead x) by tag_id [within 12 hours]  round 1 by tag_id
  . automaton: 0 -ShelfRead s-> 1 -ExitRead x-> 2 match; no CheckoutRead c between s and x
  . sequence scan and construction over stacks of events; a trace for each tag_id
  . tested before an event is stored: s: product = 'razor'
  . skip-till-any-match
  . shows s_product = s.product, x_gate = x.gate, match_start
  . rows that wait for earlier ones: none is older than 1 second; rate × 1 second
  . events: a match lies within 12 hours; ≤ rate × (12 hours + 1 second)
    Merged 3 streams of events    round 1 by tag_id
      Project event_type = 'ShelfRead', tag_id, product, gate = CAST(NULL AS INT)  Catalyst
        Select product = 'razor'  Catalyst
          Scan ShelfRead          Catalyst
      Project event_type = 'CheckoutRead', tag_id, product = CAST(NULL AS STRING), gate = CAST(NULL AS INT)  Catalyst
        Scan CheckoutRead         Catalyst
      Project event_type = 'ExitRead', tag_id, product = CAST(NULL AS STRING), gate  Catalyst
        Scan ExitRead             Catalyst

query priced
  PatternMatch SEQ(ReceiveOrder r, AND(Quote q, CheckStock c), Invoice i) by order_id [within 1 day]  round 1 by order_id
  . automaton: 0 -ReceiveOrder r-> 1, 1 -Quote q-> 2, 1 -CheckStock c-> 3, 2 -CheckStock c-> 4, 3 -Quote q-> 4, 4 -Invoice i-> 5 match
  . sequence scan and construction over stacks of events; a trace for each order_id
  . tested while a match grows: i.price > q.price
  . skip-till-any-match
  . shows rise = i.price - q.price
  . rows that wait for earlier ones: none is older than 2 seconds; rate × 2 seconds ≈ 200 rows
  . events: a match lies within 1 day; ≤ rate × (1 day + 2 seconds) ≈ 8,640,200 rows
    Select kind IN ('Cancel', 'CheckStock', 'Invoice', 'Quote', 'ReceiveOrder')  Catalyst, 100 rows/s
      Scan event  Catalyst, 100 rows/s

query rising
  PatternMatch SEQ(Quote+ q[], Invoice i) by order_id [within 10 minutes]  round 1 by order_id
  . automaton: 0 -Quote q-> 1 -Invoice i-> 2 match; 1 -Quote q-> 1
  . runs, one for each partial match; a trace for each order_id
  . tested while a match grows: q[1].price > 10; q[i].price > q[i-1].price; i.price < q[last].price; count(q) > 2
  . skip-till-next-match
  . rows that wait for earlier ones: none is older than 2 seconds; rate × 2 seconds ≈ 200 rows
  . events: a match lies within 10 minutes; ≤ rate × (10 minutes + 2 seconds) ≈ 60,200 rows
    Select kind IN ('Cancel', 'CheckStock', 'Invoice', 'Quote', 'ReceiveOrder')  Catalyst, 100 rows/s
      Scan event                                                           Catalyst, 100 rows/s

query collapsed
  PatternMatch SEQ(ReceiveOrder r, Quote+ q[], Invoice i) by order_id [within 1 hour]  round 1 by order_id
  . automaton: 0 -ReceiveOrder r-> 1 -Quote q-> 2 -Invoice i-> 3 match; 2 -Quote q-> 2
  . sequence scan and construction over stacks of events; a trace for each order_id
  . skip-till-any-match, one list of all candidates, each note once
  . shows quotes = count(q), match_count
  . rows that wait for earlier ones: none is older than 2 seconds; rate × 2 seconds ≈ 200 rows
  . events: a match lies within 1 hour; ≤ rate × (1 hour + 2 seconds) ≈ 360,200 rows
  . each note that was met: a match lies within 1 hour; ≤ rate × (1 hour + 2 seconds) ≈ 360,200 rows
    Select kind IN ('Cancel', 'CheckStock', 'Invoice', 'Quote', 'ReceiveOrder')  Catalyst, 100 rows/s
      Scan event  Catalyst, 100 rows/s

query either
  PatternMatch OR(SEQ(Quote q, Cancel c), SEQ(Invoice i, Cancel d)) by order_id [trace_ttl 1 hour]  round 1 by order_id
  . automaton of alternative 0: 0 -Quote q-> 1 -Cancel c-> 2 match
  . automaton of alternative 1: 0 -Invoice i-> 1 -Cancel d-> 2 match
  . sequence scan and construction over stacks of events; a trace for each order_id
  . skip-till-any-match
  . rows that wait for earlier ones: none is older than 2 seconds; rate × 2 seconds ≈ 200 rows
  . events: a trace ends after 1 hour without events; events of open traces of order_id
  . if every order_id falls silent for 1 hour
    Select kind IN ('Cancel', 'CheckStock', 'Invoice', 'Quote', 'ReceiveOrder')  Catalyst, 100 rows/s
      Scan event  Catalyst, 100 rows/s

sources, as Catalyst reads them
  ShelfRead (feed) -> round 1 by tag_id
  . crosses: event_type = 'ShelfRead', tag_id, product, gate = CAST(NULL AS INT)
  . where: (`product` = 'razor')
  CheckoutRead (feed) -> round 1 by tag_id
  . crosses: event_type = 'CheckoutRead', tag_id, product = CAST(NULL AS STRING), gate = CAST(NULL AS INT)
  ExitRead (feed) -> round 1 by tag_id
  . crosses: event_type = 'ExitRead', tag_id, product = CAST(NULL AS STRING), gate
  event (feed) -> round 1 by order_id
  . crosses: kind, order_id, price, note, ts
  . where: (`kind` IN ('Cancel', 'CheckStock', 'Invoice', 'Quote', 'ReceiveOrder'))
