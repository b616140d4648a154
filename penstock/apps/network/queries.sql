-- Four routers report the packets they forward, a thousand a second each. After half a minute the traffic changes.

CREATE STREAM r1 (
  pid BIGINT NOT NULL, size BIGINT, dest STRING, payload STRING, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 1 SECOND
) USING feed OPTIONS (workload 'network.r1', rate '1000', drift_rows '30000', partitions '2', max_rows_per_batch '10000')
  PARTITIONED BY part POSITION off;

CREATE STREAM r2 (
  pid BIGINT NOT NULL, size BIGINT, dest STRING, payload STRING, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 1 SECOND
) USING feed OPTIONS (workload 'network.r2', rate '1000', drift_rows '30000', partitions '1', max_rows_per_batch '10000')
  PARTITIONED BY part POSITION off;

CREATE STREAM r3 (
  pid BIGINT NOT NULL, size BIGINT, dest STRING, payload STRING, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 1 SECOND
) USING feed OPTIONS (workload 'network.r3', rate '1000', drift_rows '30000', partitions '1', max_rows_per_batch '10000')
  PARTITIONED BY part POSITION off;

CREATE STREAM r4 (
  pid BIGINT NOT NULL, size BIGINT, dest STRING, payload STRING, ts TIMESTAMP, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 1 SECOND
) USING feed OPTIONS (workload 'network.r4', rate '1000', drift_rows '30000', partitions '1', max_rows_per_batch '10000')
  PARTITIONED BY part POSITION off;

-- Whose address is it? A walk through a tree of networks for every row: some microseconds.
CREATE FUNCTION domain(address STRING) RETURNS STRING
  USING python OPTIONS (callable 'penstock.apps.network.lookups:domain', kind 'rows');

-- Bits per character: high in what is encoded. Dearer still.
CREATE FUNCTION entropy(text STRING) RETURNS DOUBLE
  USING python OPTIONS (callable 'penstock.apps.network.lookups:entropy', kind 'rows');

-- Encoded logins to one portal. The size is compared by Catalyst; the other three conditions change places: at first most
-- packets go elsewhere, so the look-up of the domain rejects most, later nearly all go to the portal and hardly one is encoded.
-- One rejected row in ten is profiled, because a thousand rows a second are few.
CREATE CQ encoded_logins AS
SELECT /*+ ORDER(policy = 'agreedy', probability = 0.1, window_rows = 500) */ pid, dest
FROM   r1
WHERE  entropy(payload) > 4.5 AND domain(dest) = 'yahoo.com' AND payload RLIKE '/(login|signin)' AND size > 60
OUTPUT TO memory;

-- Packets that all four routers have seen within two seconds.
CREATE CQ common AS
SELECT a.pid, a.size
FROM   r1 a [RANGE 2 SECONDS], r2 b [RANGE 2 SECONDS], r3 c [RANGE 2 SECONDS], r4 d [RANGE 2 SECONDS]
WHERE  a.pid = b.pid AND a.pid = c.pid AND a.pid = d.pid
OUTPUT TO memory;

-- Common traffic, every five seconds.
CREATE CQ common_traffic AS
SELECT window_start() AS since, COUNT(*) AS packets, SUM(size) AS bytes
FROM   common [RANGE 5 SECONDS]
OUTPUT TO memory;
