"""Random continuous queries, each written twice: for Penstock, and as an ordinary query over the whole of its streams.

The second text is standard SQL (DuckDB reads it). Its relations carry the event time in `_ts`, in ticks of the timeline, and those
that are rows of a base stream the order of arrival in `_pos`. Windows are spelt out as joins with a list of window numbers `w`.
"""
