-- What is done for orders, one event for each step; a hundred orders are under way at a time, each takes 24 seconds.
-- One in twenty leaves the process in some way. Events arrive up to half a second out of order. Patterns are sought within 30
-- seconds, a little more than an order takes, so that nothing is kept for long.

CREATE STREAM event (
  order_id BIGINT NOT NULL, kind STRING, price DOUBLE, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 1 SECOND
) USING feed OPTIONS (workload 'orders.event', rate '100', concurrent '100', disorder_rows '50', partitions '2', max_rows_per_batch '5000')
  PARTITIONED BY part POSITION off;

-- What the process allows: which steps follow which, which exclude each other, which end an order. Read off the workflow that
-- ships with Penstock; events that break it are set aside with the reason.
CREATE CONSTRAINTS process ON event FROM WORKFLOW 'order_fulfilment';

-- Orders that leave the process. These queries look for what it forbids, so they must not rely on it: with it they would be
-- refused, because they could never match.

-- Goods are packed, and nobody has paid since the order was confirmed.
CREATE CQ packed_unpaid AS
EVENT  SEQ(ConfirmOrder c, !(ReceivePayment p), PackOrder k) FROM event TYPE kind
WHERE  [order_id]
WITHIN 30 SECONDS
RETURN order_id, c.ts AS confirmed, k.ts AS packed
OPTIONS (reasoning 'off');

CREATE CQ paid_twice AS
EVENT  SEQ(ReceivePayment one, ReceivePayment two) FROM event TYPE kind
WHERE  [order_id]
WITHIN 30 SECONDS
RETURN order_id, one.ts AS paid, two.ts AS paid_again
OPTIONS (reasoning 'off');

CREATE CQ sent_after_cancel AS
EVENT  SEQ(CancelOrder c, PackOrder k) FROM event TYPE kind
WHERE  [order_id]
WITHIN 30 SECONDS
RETURN order_id, c.ts AS cancelled, k.ts AS packed
OPTIONS (reasoning 'off');

CREATE CQ both_stocks AS
EVENT  AND(UseLocalStock l, UseRemoteStock r) FROM event TYPE kind
WHERE  [order_id]
WITHIN 30 SECONDS
RETURN order_id, l.ts AS taken_here, r.ts AS taken_there, match_end AS noticed
OPTIONS (reasoning 'off');

CREATE CQ unaudited AS
EVENT  SEQ(NotifyCustomer n, !(AuditOrder a), FinishOrder f) FROM event TYPE kind
WHERE  [order_id]
WITHIN 30 SECONDS
RETURN order_id, n.ts AS notified, f.ts AS finished
OPTIONS (reasoning 'off');

-- Orders that keep to the process and are bad news all the same: quoted by a supplier, served from the remote warehouse at
-- a price above 200, and then cancelled. Nearly every order is hopeless soon, and the process says when: served from the local
-- warehouse, invoiced for less, finished. `penstock explain orders` shows the proofs.
CREATE CQ dear_and_cancelled AS
EVENT  SEQ((SEQ(OrderFromSupplier s, SendQuote q) AND SEQ(UseRemoteStock u, GenerateInvoice g[price > 200])), CancelOrder c)
       FROM event TYPE kind
WHERE  [order_id]
WITHIN 30 SECONDS
RETURN order_id, g.price AS price, u.ts AS taken_there, c.ts AS cancelled;

-- Everything in sentences: when, which order, what happened, and what the process expects.
CREATE FUNCTION clock(moment TIMESTAMP) RETURNS STRING
  USING python OPTIONS (callable 'penstock.apps.wording:clock', kind 'arrow');

CREATE CQ alerts AS
SELECT order_id, packed AS noticed,
       concat('At ', clock(packed), ' order ', CAST(order_id AS STRING), ' was packed, but nobody had paid since it was confirmed at ',
              clock(confirmed), '. Expected: ReceivePayment before PackOrder.') AS alert
FROM   packed_unpaid
UNION ALL
SELECT order_id, paid_again AS noticed,
       concat('At ', clock(paid_again), ' order ', CAST(order_id AS STRING), ' was paid again; the payment before came at ', clock(paid),
              '. Expected: ReceivePayment once.') AS alert
FROM   paid_twice
UNION ALL
SELECT order_id, packed AS noticed,
       concat('At ', clock(packed), ' order ', CAST(order_id AS STRING), ' was packed, although it had been cancelled at ',
              clock(cancelled), '. Expected: nothing after CancelOrder.') AS alert
FROM   sent_after_cancel
UNION ALL
SELECT order_id, noticed,
       concat('At ', clock(noticed), ' order ', CAST(order_id AS STRING), ' had goods from both warehouses: from the local one at ',
              clock(taken_here), ', from the remote one at ', clock(taken_there),
              '. Expected: either UseLocalStock or UseRemoteStock.') AS alert
FROM   both_stocks
UNION ALL
SELECT order_id, finished AS noticed,
       concat('At ', clock(finished), ' order ', CAST(order_id AS STRING), ' was finished, but nobody had audited it since its customer was notified at ',
              clock(notified), '. Expected: AuditOrder before FinishOrder.') AS alert
FROM   unaudited
UNION ALL
SELECT order_id, cancelled AS noticed,
       concat('At ', clock(cancelled), ' order ', CAST(order_id AS STRING), ', worth ', CAST(CAST(price AS BIGINT) AS STRING),
              ', was cancelled; its goods had left the remote warehouse at ', clock(taken_there),
              '. Expected: FinishOrder for orders above 200.') AS alert
FROM   dear_and_cancelled
OUTPUT TO memory;
