"""Orders on their way through a company: alerts on those that leave the process, and on expensive ones that are cancelled."""
