-- each type is a stream: rows are merged with the columns somebody reads, at the shard of their key
CREATE STREAM ShelfRead (tag_id BIGINT, product STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 5 SECONDS);
CREATE STREAM CheckoutRead (tag_id BIGINT, till INT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 5 SECONDS);
CREATE STREAM ExitRead (tag_id BIGINT, gate INT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 5 SECONDS);
CREATE CQ theft AS EVENT SEQ(ShelfRead s, !(CheckoutRead c), ExitRead x)
  WHERE skip-till-any-match AND [tag_id] AND s.product = 'razor' WITHIN 12 hours RETURN s.product, x.gate, x.ts - s.ts AS took
  OUTPUT TO console;
----
theft
PatternMatch SEQ(ShelfRead s, !(CheckoutRead c), ExitRead x) by tag_id [within 12 hours]
  . skip-till-any-match
  . where s.product = 'razor'
  . shows s_product = s.product, x_gate = x.gate, took = x.ts - s.ts
  Merged 3 streams of events
    Project event_type = 'ShelfRead', tag_id, product, ts, gate = CAST(NULL AS INT)
      Scan ShelfRead
    Project event_type = 'CheckoutRead', tag_id, product = CAST(NULL AS STRING), ts, gate = CAST(NULL AS INT)
      Scan CheckoutRead
    Project event_type = 'ExitRead', tag_id, product = CAST(NULL AS STRING), ts, gate
      Scan ExitRead
-> console

====
-- one stream with types; a condition in brackets, clauses in any order
CREATE STREAM e (kind STRING, order_id BIGINT, price DOUBLE, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ remote AS EVENT SEQ(CheckInventory ci, UseRemoteStock u, GenerateInvoice g [price > 200]) FROM e TYPE kind WHERE [order_id] WITHIN 100;
CREATE CQ again AS EVENT SEQ(A, A OR (B AND C)) WITHIN 9 RETURN EVENTS, match_end - match_start AS took FROM e TYPE kind PARTITION BY order_id;
CREATE CQ ended AS EVENT SEQ(A a, ANY(B, C) x) FROM (SELECT kind AS type, price FROM e WHERE order_id > 3)
  WHERE (a.price > x.price OR a.price IS NULL) OPTIONS (terminal 'Z', order 'total', reuse false);
----
remote
PatternMatch SEQ(CheckInventory ci, UseRemoteStock u, GenerateInvoice g) by order_id [within 100]
  . skip-till-any-match
  . where g.price > 200
  Scan e

again
PatternMatch SEQ(A A_1, OR(A A_2, AND(B, C))) by order_id [within 9]
  . skip-till-any-match
  . a row for each event of a match
  . shows took = match_end - match_start
  Scan e

ended
PatternMatch SEQ(A a, ANY(B, C) x) [until Z]
  . skip-till-any-match, order total, no event twice in a match
  . where a.price > x.price OR a.price IS NULL
  Project type = kind, price
    Select order_id > 3
      Scan e

====
-- lists: first, last, every and previous events, and aggregates over all or over earlier ones
CREATE STREAM Stock (symbol STRING, price DOUBLE, volume BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 5 SECONDS);
CREATE CQ rising AS EVENT SEQ(Stock+ a[], Stock b) WHERE skip-till-next-match AND [symbol] AND a[1].volume > 1000
  AND a[i].price > a[i-1].price AND a[i].volume > avg(a[..i-1].volume) AND b.price < a[last].price AND count(a) > 2
  WITHIN 10 minutes RETURN symbol, count(a) AS rises, max(a.price), a[1].price AS low, b.price;
CREATE CQ longest AS EVENT SEQ(Stock a, Stock* b[]) WHERE partition-contiguity AND [symbol] AND b.price > a.price WITHIN 0 seconds
  OPTIONS (kleene_last 'maximal');
CREATE CQ volumes AS EVENT SEQ(Stock a, Stock+ b[], Stock c) WHERE [symbol] WITHIN 1 minute RETURN sum(b.volume) AS volume, match_count
  OPTIONS (kleene 'collapse', dedup true, event_id 'volume', dedup_branches true);
----
rising
PatternMatch SEQ(Stock+ a[], Stock b) by symbol [within 10 minutes]
  . skip-till-next-match
  . where a[1].volume > 1000
  . where a[i].price > a[i-1].price
  . where a[i].volume > avg(a[..i-1].volume)
  . where b.price < a[last].price
  . where count(a) > 2
  . shows symbol, rises = count(a), max_a_price = max(a.price), low = a[1].price, b_price = b.price
  Project event_type = 'Stock', symbol, price, volume
    Scan Stock

longest
PatternMatch SEQ(Stock a, Stock* b[]) by symbol [within 0 seconds]
  . partition-contiguity, the longest run at the end
  . where b[i].price > a.price
  Project event_type = 'Stock', symbol, price, volume, ts
    Scan Stock

volumes
PatternMatch SEQ(Stock a, Stock+ b[], Stock c) by symbol [within 1 minute]
  . skip-till-any-match, one list of all candidates, each volume once, alternatives with the same events once
  . shows volume = sum(b.volume), match_count
  Project event_type = 'Stock', symbol, volume
    Scan Stock
