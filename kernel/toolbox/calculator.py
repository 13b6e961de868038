"""A bounded evaluator of arithmetic. No ``eval``: the expression is parsed and its tree is walked by rows of
a table.

It runs in the node itself, on the event loop. Bounds: the length of the text, the nesting, and the size of every
number *before* it is computed, so that the worst expression accepted takes about a millisecond. What is not
arithmetic (names, attributes, calls of anything but the functions below, text, comparisons, shifts) is refused by
name.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable

MAX_EXPRESSION_CHARS = 500
MAX_DEPTH = MAX_EXPRESSION_CHARS // 2  # so that a sum as long as the text allows is accepted
MAX_BITS = 3_400  # about 1,000 decimal digits
MAX_FACTORIAL = 400
MAX_ARGUMENTS = 100

Number = int | float


class CalculationError(Exception):
    """The expression has no answer here. The message is fit for the model that wrote it."""


def calculate(expression: str) -> str:
    """The value of ``expression`` as text. Raises :class:`CalculationError`."""
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise CalculationError(
            f"the expression has {len(expression)} characters, at most {MAX_EXPRESSION_CHARS} are accepted"
        )
    if not expression.strip():
        raise CalculationError("the expression is empty; give one such as 17*23")
    try:
        with warnings.catch_warnings(action="ignore"):  # of odd expressions that a model wrote
            tree = ast.parse(expression.strip(), mode="eval")
    except (
        SyntaxError,
        ValueError,
        MemoryError,
        RecursionError,
        SystemError,
    ):  # the last: CPython on odd nesting
        raise CalculationError("the expression cannot be read; write arithmetic such as (2+3)*4**2") from None
    try:
        return _text(_value(tree.body, MAX_DEPTH))
    except ZeroDivisionError:
        raise CalculationError("division by zero") from None
    except OverflowError:
        raise CalculationError("a number became too large") from None
    except ValueError as error:
        raise CalculationError(str(error)) from None


def _text(value: Number) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def _value(node: ast.expr, depth: int) -> Number:
    if depth == 0:
        raise CalculationError(f"the expression is nested deeper than {MAX_DEPTH} levels")
    match node:
        case ast.Constant(value=int(value) | float(value)) if type(value) is not bool:
            return _bounded(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, depth - 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, depth - 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _bounded(_OPERATORS[type(op)](_value(left, depth - 1), _value(right, depth - 1)))
        case ast.BinOp(op=ast.BitXor()):
            raise CalculationError("^ is not a power; write **")
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_call(name, [_value(argument, depth - 1) for argument in args]))
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case _:
            raise CalculationError(f"{_describe(node)} is not accepted; {_ACCEPTED}")


def _bounded(value: Number) -> Number:
    """``value`` as an answer or an operand: a finite real number of at most ``MAX_BITS``."""
    if isinstance(value, int):
        _check_bits(value.bit_length())
    elif isinstance(value, complex):
        raise CalculationError("the answer is not a real number")
    elif not math.isfinite(value):
        raise CalculationError("a number became too large or is not a number")
    return value


def _check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise CalculationError(f"a number of about {bits * 3 // 10} digits is too large, the limit is 1000")


def _multiply(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length() - 1)
    return left * right


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0 and abs(base) > 1:
        _check_bits((base.bit_length() - 1) * exponent + 1)
    result: Number = base**exponent
    return result


def _factorial(value: Number) -> int:
    if not isinstance(value, int) or not 0 <= value <= MAX_FACTORIAL:
        raise CalculationError(f"factorial takes an integer from 0 to {MAX_FACTORIAL}")
    return math.factorial(value)


def _round(value: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > 100:
        raise CalculationError("round takes an integer of at most 100 as its second number")
    return round(value, digits) if digits else round(value)


def _call(name: str, values: list[Number]) -> Number:
    function, fewest, most = _FUNCTIONS[name]
    if not fewest <= len(values) <= most:
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise CalculationError(f"{name} takes {wanted} numbers, {len(values)} given")
    try:
        return function(*values)
    except TypeError:
        raise CalculationError(f"{name} takes integers") from None
    except ValueError:
        raise CalculationError(f"{name} is not defined for what was given") from None


def _describe(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            return f"the name {name[:40]!a}"
        case ast.Constant(value=value):
            return f"a value of type {type(value).__name__}"
        case ast.BinOp(op=op):
            return f"the operator {type(op).__name__}"
        case _:
            return f"{type(node).__name__}"


_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: _multiply,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
    ast.Pow: _power,
}
_CONSTANTS: dict[str, float] = {"pi": math.pi, "e": math.e}
# name: (function, fewest, most numbers it takes)
_FUNCTIONS: dict[str, tuple[Callable[..., Number], int, int]] = {
    "abs": (abs, 1, 1),
    "min": (min, 2, MAX_ARGUMENTS),
    "max": (max, 2, MAX_ARGUMENTS),
    "round": (_round, 1, 2),
    "floor": (math.floor, 1, 1),
    "ceil": (math.ceil, 1, 1),
    "sqrt": (math.sqrt, 1, 1),
    "exp": (math.exp, 1, 1),
    "log": (math.log, 1, 2),
    "log2": (math.log2, 1, 1),
    "log10": (math.log10, 1, 1),
    "sin": (math.sin, 1, 1),
    "cos": (math.cos, 1, 1),
    "tan": (math.tan, 1, 1),
    "asin": (math.asin, 1, 1),
    "acos": (math.acos, 1, 1),
    "atan": (math.atan, 1, 1),
    "degrees": (math.degrees, 1, 1),
    "radians": (math.radians, 1, 1),
    "hypot": (math.hypot, 1, MAX_ARGUMENTS),
    "gcd": (math.gcd, 1, MAX_ARGUMENTS),
    "factorial": (_factorial, 1, 1),
}
_ACCEPTED = "there are numbers, + - * / // % **, parentheses, pi, e, and the functions " + ", ".join(
    _FUNCTIONS
)
