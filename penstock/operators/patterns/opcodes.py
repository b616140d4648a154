"""Instructions of the small machine that tests conditions across events inside compiled loops."""

from __future__ import annotations

# Values of events: operands are register and column.
LOAD_INT, LOAD_FLOAT = 0, 1
# Constants, from the tables beside the code; NULL is a constant of its own.
CONST_INT, CONST_FLOAT, CONST_NULL = 2, 3, 4
# Aggregates of repeated variables: operands are slot and whether the value is a float.
AGG_EVENTS, AGG_COUNT, AGG_SUM, AGG_AVG, AGG_MIN, AGG_MAX = 5, 6, 7, 8, 9, 10
# Integer arithmetic; the first operand is the number of bits the result must fit in.
ADD_INT, SUB_INT, MUL_INT, NEG_INT, MOD_INT, DIV_INT = 11, 12, 13, 14, 15, 16
# Float arithmetic; the first operand is 32 when the result is to be rounded to a float.
ADD_FLOAT, SUB_FLOAT, MUL_FLOAT, DIV_FLOAT, NEG_FLOAT, MOD_FLOAT = 17, 18, 19, 20, 21, 22
INT_TO_FLOAT = 23
# Comparisons: the first operand is one of the relations below.
CMP_INT, CMP_FLOAT = 24, 25
EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, NULL_SAFE = 0, 1, 2, 3, 4, 5, 6
AND, OR, NOT, IS_NULL = 26, 27, 28, 29

#: Deepest stack a condition may need.
STACK = 64
