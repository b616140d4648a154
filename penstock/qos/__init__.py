"""Quality of service: which work first (scheduling), what to leave out, how much fits."""
