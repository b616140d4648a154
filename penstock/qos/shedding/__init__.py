"""Load shedding: leaving out as few rows as possible, so that answers stay in time under overload.

An estimate of the load says when and how much; places on the paths of rows, weighed by the work they save for the error they
cause, say where; shedders say which rows.
"""
