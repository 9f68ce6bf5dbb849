"""The arithmetic of Tokenweir: no clock, no I/O, the standard library and NumPy only.

State, records and time go in; state, decisions and audit come out. Quantities are integers
(tokens, milli-tokens/s, bytes, milliseconds, millionths); on floats only + - * / and comparisons,
element by element, so that the same log gives the same bytes on every machine (A1).
"""

# Raise this when the same log would give other bytes than before: replay stops at the change (S5).
ARITHMETIC = 4
# One, in the millionths in which ratios are stored.
ONE = 1_000_000
