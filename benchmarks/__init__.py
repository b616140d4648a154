"""Speed, measured against what a user would pick instead; each module prints one JSON line and appends to RESULTS.md."""
