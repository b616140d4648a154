"""An online auction: items are offered, bid for and closed, and queries answer while it goes on."""
