"""XJoin and PJoin: joins without windows, of streams that may not fit in memory; PJoin's state shrinks when keys are closed."""
