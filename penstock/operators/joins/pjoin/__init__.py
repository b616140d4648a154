"""PJoin and XJoin: `operator` joins streams, `trace` runs item lists; both drive the event-driven `engine` over compiled loops."""
