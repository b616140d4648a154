-- every ten minutes the average of the last hour, from 10 am to 10 pm of the next day there is (now is 1970-01-02 00:00)
CREATE STREAM RoomTemp (room STRING, temp DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 1 SECOND);
CREATE CQ HourlyTemp BEGIN '10:00' END '22:00' AS
  SELECT avg(temp) AS t, window_start(), window_end() AS until FROM RoomTemp r [Range 1 hour, advance 10 minutes] WHERE r.room = 'A';
CREATE CQ always BEGIN Now END Infinity EMIT PARTIAL AS SELECT room, avg(temp) FROM RoomTemp [Range 1 hour] GROUP BY room;
CREATE CQ one_day BEGIN '2026-01-01 10:00:00' END TIMESTAMP '2026-01-01 22:00:00' AS SELECT DISTINCT room FROM RoomTemp [Range 1 hour];
----
HourlyTemp from 122400000000 to 165600000000
Project t = `avg(temp)`, window_start = `window_start()`, until = `window_end()`
  GroupBy (): avg(temp) [sliding 1 hour advance 10 minutes]
    . window bounds window_start(), window_end()
    . from 122400000000 to 165600000000
    Select room = 'A'
      Scan RoomTemp

always from 86400000000 for ever
Project room, avg(temp)
  GroupBy room: avg(temp) [tumbling 1 hour]
    . emit partial
    . from 86400000000 to the end
    Scan RoomTemp

one_day from 1767261600000000 to 1767304800000000
Distinct [tumbling 1 hour]
  . from 1767261600000000 to 1767304800000000
  Project room
    Scan RoomTemp
