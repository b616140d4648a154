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
# Functions of one value. Those that give integers or floats take the bits of the result first; ROUND has digits second.
ABS_INT, ABS_FLOAT, FLOOR, CEIL, ROUND, SQRT, IS_NAN = 30, 31, 32, 33, 34, 35, 36
# Casts: a whole number to fewer bits, a float to a whole number or to fewer bits.
FIT_INT, FLOAT_TO_INT, FIT_FLOAT = 37, 38, 39
# Functions of two values.
POWER, LEAST_INT, GREATEST_INT, LEAST_FLOAT, GREATEST_FLOAT, COALESCE = 40, 41, 42, 43, 44, 45
# A condition, the value if it is true, the value otherwise.
CHOOSE = 46

#: How much an instruction changes the height of the stack, where it does.
GROWTH = {
    **dict.fromkeys(range(LOAD_INT, AGG_MAX + 1), 1),
    **dict.fromkeys((ADD_INT, SUB_INT, MUL_INT, MOD_INT, DIV_INT), -1),
    **dict.fromkeys((ADD_FLOAT, SUB_FLOAT, MUL_FLOAT, DIV_FLOAT, MOD_FLOAT), -1),
    **dict.fromkeys((CMP_INT, CMP_FLOAT, AND, OR), -1),
    **dict.fromkeys(range(POWER, COALESCE + 1), -1),
    CHOOSE: -2,
}
#: Deepest stack a condition may need.
STACK = 64
