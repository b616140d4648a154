"""What steers a run, on the driver: the application and its queries, decisions, reports, and what is learnt from them."""
