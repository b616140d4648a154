"""Where the rows of a join are: in memory, in files; and what they still owe an answer."""
