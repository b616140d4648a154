-- Packets by size, with the highest entropy of their contents: a Python function, some microseconds for each packet, and more packets than
-- two cores can process. Answers shall come within two seconds, and up to four packets of five may be left out for that. Counts are then
-- estimates for all packets.
--
--   penstock plan docs/examples/contract.sql --trial '20 seconds'
--   penstock run  docs/examples/contract.sql --seconds 45
--   penstock why  docs/examples/contract.sql
CREATE STREAM packet (size BIGINT, payload STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND)
USING feed OPTIONS (workload 'network.r1', rate '300000');

CREATE FUNCTION entropy(text STRING) RETURNS DOUBLE
  USING python OPTIONS (callable 'penstock.apps.network.lookups:entropy', kind 'rows');

CREATE CQ contents
WITH QOS (LATENCY <= INTERVAL 2 SECONDS MUST, LOSS <= 80 PERCENT COMPENSATE)
AS SELECT size, COUNT(*) AS packets, MAX(entropy(payload)) AS highest, sampled_fraction() AS kept
FROM packet [RANGE 4 SECONDS, ADVANCE 1 SECOND] GROUP BY size;
