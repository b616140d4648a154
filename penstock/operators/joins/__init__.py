"""Joins of streams: `window_join` is the operator; `sides` holds one input's rows as sorted runs; `extents` knows windows."""
