"""Functions of one float32 as TIR for the host, which give the same bits on every processor.

A library's functions round as they like, and differ from one processor to another. These are polynomials in float64,
each product and each sum rounded by itself, and rounded once more to float32: of nearly all arguments that is the
nearest float32. ``docs/expressions.md`` states the algorithms.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tvm import tirx

Value = Any  # a tirx.Expr; TVM's operators are untyped

_WIDE, _BITS = "float64", "int64"
_FRACTION_BITS, _BIAS = 52, 1023  # of a float64
_MOST = 160.0  # beyond it the exponential of either sign is 0 or infinite as a float32, and still a normal float64
# the exponential of r / r - 1 / r: Taylor's, which leaves 4e-18 of |r| <= ln(2) / 2
_EXPONENTIAL = tuple(1 / math.factorial(power) for power in range(1, 15))
_LN2, _INVERSE_LN2 = 0.6931471805599453, 1.4426950408889634  # written down, as a library's may differ in the last bit
# ln(2) in two parts; products of the first, of 32 bits, with whole numbers of up to 11 are exact
_LN2_HIGH, _LN2_LOW = 0.6931471806019545, -4.2009150726810846e-11
# atanh(s) / s in powers of s ** 2: Taylor's, which leaves 1e-16 of |s| <= 3 - sqrt(8)
_INVERSE_TANGENT = tuple(1 / (2 * power + 1) for power in range(11))
# erf(x) / x in powers of x ** 2 / 8 - 1: interpolated for x ** 2 <= 16 where Chebyshev's polynomials are 0
_ERROR_FUNCTION = (
    0.35353099564340484,
    -0.17657623330137215,
    0.1316751168947243,
    -0.10771044252847223,
    0.09020899411094455,
    -0.0747278657487716,
    0.05988690500691256,
    -0.0457651103528273,
    0.03306063237814241,
    -0.022473569152920918,
    0.01434960110222316,
    -0.008606216441493567,
    0.004853541298685591,
    -0.0025782410806035245,
    0.0012926425501821833,
    -0.0006129008289159775,
    0.0002754746661897418,
    -0.00011780566904538626,
    4.7951468756461214e-05,
    -1.8380347076648238e-05,
    6.745095985631148e-06,
    -2.5739679889132567e-06,
    9.193162744243944e-07,
    -1.9986182451248213e-07,
    4.569689432779937e-08,
    -4.6193599700927736e-08,
    1.6391277313232423e-08,
)


def constant(value: float) -> Value:
    """Returns a number as float64."""
    return tirx.const(value, _WIDE)


def fenced(value: Value) -> Value:
    """Returns a value that is rounded before it is used: LLVM would fuse a product with a sum."""
    return tirx.call_llvm_pure_intrin(_WIDE, "llvm.arithmetic.fence", value)


def named(value: Value, use: Callable[[Value], Value]) -> Value:
    """Returns ``use(value)``, where the value is computed once."""
    variable = tirx.Var("t", str(value.ty.dtype))
    return tirx.Let(variable, value, use(variable))


def _product(a: Value, b: Value) -> Value:
    return fenced(a * b)


def _polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """The polynomial by Horner's rule, the constant coefficient first."""
    total = constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fenced(_product(total, x) + constant(coefficient))
    return total


def _power_of_two(exponent: Value) -> Value:
    """2 to a whole number as a float64, whose exponent it becomes."""
    bits = (tirx.Cast(_BITS, exponent) + tirx.const(_BIAS, _BITS)) << tirx.const(_FRACTION_BITS, _BITS)
    return tirx.reinterpret(_WIDE, bits)


def _held(x: Value) -> Value:
    """A float64 within what an exponential needs; a NaN becomes one end."""
    above = tirx.Select(x > constant(-_MOST), x, constant(-_MOST))
    return named(above, lambda held: tirx.Select(held < constant(_MOST), held, constant(_MOST)))


def _rounded(x: Value) -> Value:
    return tirx.call_llvm_pure_intrin(_WIDE, "llvm.nearbyint", x)


_Use = Callable[[Value, Value], Value]


def _parts(k: Value, rest: Value, use: _Use) -> Value:
    """``use(2 ** k, e ** rest - 1)``, for a whole number k and a rest of at most ln(2) / 2 of either sign."""

    def near(r: Value) -> Value:
        less_one = _product(_polynomial(r, _EXPONENTIAL), r)
        return named(_power_of_two(k), lambda scale: named(less_one, lambda small: use(scale, small)))

    return named(rest, near)


def _natural(x: Value, use: _Use) -> Value:
    """``use(2 ** k, e ** r - 1)`` of a float64 that is held, k ln(2) + r."""

    def of(held: Value) -> Value:
        def by(k: Value) -> Value:
            high = fenced(held - _product(k, constant(_LN2_HIGH)))
            return _parts(k, fenced(high - _product(k, constant(_LN2_LOW))), use)

        return named(_rounded(_product(held, constant(_INVERSE_LN2))), by)

    return named(x, of)


def _whole(scale: Value, small: Value) -> Value:
    return fenced(scale + _product(scale, small))


def _less_one(scale: Value, small: Value) -> Value:
    """Near 0 with all its digits."""
    return fenced(_product(scale, small) + fenced(scale - constant(1.0)))


def _exp(x: Value) -> Value:
    return _natural(_held(x), _whole)


def _exp2(x: Value) -> Value:
    def of(held: Value) -> Value:
        return named(_rounded(held), lambda k: _parts(k, _product(fenced(held - k), constant(_LN2)), _whole))

    return named(_held(x), of)


def _log(x: Value) -> Value:
    """By the exponent e and the fraction m in [sqrt(1/2), sqrt(2)): e ln(2) + 2 atanh((m - 1) / (m + 1))."""
    bits = tirx.reinterpret(_BITS, x)
    offset = tirx.const(0x3FE6A09E667F3BCD, _BITS)  # the bits of sqrt(1/2)
    exponent = (bits - offset) >> tirx.const(_FRACTION_BITS, _BITS)

    def of(e: Value) -> Value:
        fraction = tirx.reinterpret(_WIDE, bits - (e << tirx.const(_FRACTION_BITS, _BITS)))
        quotient = named(fraction, lambda m: fenced(fenced(m - constant(1.0)) / fenced(m + constant(1.0))))

        def by(s: Value) -> Value:
            series = named(_product(s, s), lambda square: _polynomial(square, _INVERSE_TANGENT))
            near = _product(constant(2.0), _product(s, series))
            return named(
                tirx.Cast(_WIDE, e),
                lambda k: fenced(_product(k, constant(_LN2_HIGH)) + fenced(near + _product(k, constant(_LN2_LOW)))),
            )

        return named(quotient, by)

    found = named(exponent, of)
    zero, infinite = constant(0.0), tirx.const(math.inf, _WIDE)
    positive = tirx.Select(x < infinite, found, infinite)
    return tirx.Select(x > zero, positive, tirx.Select(x < zero, tirx.const(math.nan, _WIDE), -infinite))


def _rsqrt(x: Value) -> Value:
    return constant(1.0) / tirx.call_llvm_pure_intrin(_WIDE, "llvm.sqrt", x)


def _signed_like(x: Value, magnitude: Value) -> Value:
    return tirx.call_llvm_pure_intrin(_WIDE, "llvm.copysign", magnitude, x)


def _absolute(x: Value) -> Value:
    return tirx.call_llvm_pure_intrin(_WIDE, "llvm.fabs", x)


def _tanh(x: Value) -> Value:
    """``-d / (2 + d)`` of |x| for d = e ** (-2 |x|) - 1."""
    less_one = _natural(_held(_product(constant(-2.0), _absolute(x))), _less_one)
    return _signed_like(x, named(less_one, lambda d: _absolute(d) / fenced(constant(2.0) + d)))


def _sigmoid(x: Value) -> Value:
    return constant(1.0) / fenced(constant(1.0) + _natural(_held(_product(constant(-1.0), x)), _whole))


def _erf(x: Value) -> Value:
    """From 4 on it is 1 as a float32."""
    centred = fenced(_product(_product(x, x), constant(0.125)) - constant(1.0))
    near = _product(x, named(centred, lambda u: _polynomial(u, _ERROR_FUNCTION)))
    return tirx.Select(_absolute(x) < constant(4.0), near, _signed_like(x, constant(1.0)))


_WIDE_FUNCTIONS: Mapping[str, Callable[[Value], Value]] = MappingProxyType(
    {
        "exp": _exp,
        "exp2": _exp2,
        "log": _log,
        "rsqrt": _rsqrt,
        "tanh": _tanh,
        "sigmoid": _sigmoid,
        "erf": _erf,
    }
)
_EXACT = MappingProxyType({"sqrt": "llvm.sqrt", "floor": "llvm.floor", "ceil": "llvm.ceil", "rint": "llvm.nearbyint"})


def float_function(name: str, x: Value) -> Value:
    """Returns the value of one of ``syntax_tree.FLOAT_FUNCTIONS`` at a float32; of a NaN it is one."""
    if name in _EXACT:
        return tirx.call_llvm_pure_intrin("float32", _EXACT[name], x)
    if name == "recip":
        return tirx.const(1.0, "float32") / x

    def of(argument: Value) -> Value:
        found = named(tirx.Cast(_WIDE, argument), _WIDE_FUNCTIONS[name])
        bits = tirx.reinterpret("int32", argument)
        beyond = tirx.const(0x7F800000, "int32")  # the bits of infinity; a NaN's are more
        nan = (bits & tirx.const(0x7FFFFFFF, "int32")) > beyond
        return tirx.Select(nan, argument, tirx.Cast("float32", found))

    return named(x, of)
