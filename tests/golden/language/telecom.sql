-- the three sample queries on call records
CREATE STREAM Outgoing (call_ID BIGINT, caller STRING, time TIMESTAMP, event STRING, WATERMARK time DELAY OF INTERVAL 1 MINUTE);
CREATE STREAM Incoming (call_ID BIGINT, callee STRING, time TIMESTAMP, event STRING, WATERMARK time DELAY OF INTERVAL 1 MINUTE);
CREATE CQ long_calls AS (
  SELECT S.call_ID, S.caller
  FROM Outgoing S [RANGE 24 HOURS], Outgoing E [RANGE 24 HOURS]
  WHERE S.call_ID = E.call_ID AND S.event = 'START' AND E.event = 'END' AND E.time - S.time > INTERVAL 10 MINUTES
);
CREATE CQ pairs AS
  SELECT DISTINCT O.caller, I.callee
  FROM Outgoing O [RANGE 24 HOURS], Incoming I [RANGE 24 HOURS]
  WHERE O.call_ID = I.call_ID AND O.event = 'START' AND I.event = 'START';
CREATE CQ longest AS
  SELECT S.caller, MAX(E.time - S.time) AS longest
  FROM Outgoing S [RANGE 24 HOURS], Outgoing E [RANGE 24 HOURS]
  WHERE S.call_ID = E.call_ID AND S.event = 'START' AND E.event = 'END'
  GROUP BY S.caller;
----
long_calls
Project call_ID = S.call_ID, caller = S.caller
  WindowJoin S.call_ID = E.call_ID [sliding 1 day | sliding 1 day]
    . where E.time - S.time > 600000000L
    Select S.event = 'START'
      Scan Outgoing as S
    Select E.event = 'END'
      Scan Outgoing as E

pairs
Distinct [tumbling 1 day]
  Project caller = O.caller, callee = I.callee
    WindowJoin O.call_ID = I.call_ID [sliding 1 day | sliding 1 day]
      Select O.event = 'START'
        Scan Outgoing as O
      Select I.event = 'START'
        Scan Incoming as I

longest
Project caller = S.caller, longest = `max(E.time - S.time)`
  GroupBy S.caller: max(E.time - S.time) [tumbling 1 day]
    WindowJoin S.call_ID = E.call_ID [sliding 1 day | sliding 1 day]
      Select S.event = 'START'
        Scan Outgoing as S
      Select E.event = 'END'
        Scan Outgoing as E

warning: query 'pairs': the aggregate, DISTINCT or UNION over the join uses tumbling windows as long as the longest of its inputs; for another one write the join as a query of its own and give its result a window
warning: query 'longest': the aggregate, DISTINCT or UNION over the join uses tumbling windows as long as the longest of its inputs; for another one write the join as a query of its own and give its result a window
