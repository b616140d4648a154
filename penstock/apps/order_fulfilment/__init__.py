"""Orders on their way through a company: alerts on those that leave the process, and on dear ones that are cancelled."""
