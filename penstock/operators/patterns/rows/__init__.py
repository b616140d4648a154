"""Row patterns of SQL: regular expressions over the ordered rows of a partition."""
