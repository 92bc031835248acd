"""Quantities as people write them: "16 TB", "16e12 B", "16,000 GB", "128 Tb", "19 min", "1.5 million USD", "1/3".

Prefixes are those of the SI (BIPM, 9th edition, section 3) and of IEC 80000-13 (KiB, MiB, ...).
"""

from __future__ import annotations

import math
import re

from grader.quiz.deck import Number
from grader.quiz.formula import compute

_SI = {
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "m": 1e-3,
    "": 1.0,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
}
_IEC = {f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGTPE", start=1)}
_WORDS = {"k": 1e3, "M": 1e6, "bn": 1e9, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_PREFIXED = {  # what takes a prefix: its dimension, and how many of its base unit it is
    "B": ("byte", 1.0), "b": ("byte", 0.125), "bit": ("byte", 0.125), "s": ("second", 1.0), "W": ("watt", 1.0),
    "Wh": ("watt hour", 1.0),
    "FLOP": ("operation", 1.0), "USD": ("US dollar", 1.0),
}  # fmt: skip
_WHOLE = {
    "byte": ("byte", 1.0), "bytes": ("byte", 1.0), "bits": ("byte", 0.125), "sec": ("second", 1.0),
    "secs": ("second", 1.0), "second": ("second", 1.0), "seconds": ("second", 1.0), "min": ("second", 60.0),
    "mins": ("second", 60.0), "minute": ("second", 60.0), "minutes": ("second", 60.0), "h": ("second", 3600.0),
    "hr": ("second", 3600.0), "hrs": ("second", 3600.0), "hour": ("second", 3600.0), "hours": ("second", 3600.0),
    "millisecond": ("second", 1e-3), "milliseconds": ("second", 1e-3), "msec": ("second", 1e-3),
    "microsecond": ("second", 1e-6), "microseconds": ("second", 1e-6), "usec": ("second", 1e-6),
    "nanosecond": ("second", 1e-9), "nanoseconds": ("second", 1e-9),
    "d": ("second", 86400.0), "day": ("second", 86400.0), "days": ("second", 86400.0),
    "week": ("second", 604800.0), "weeks": ("second", 604800.0), "watt": ("watt", 1.0), "watts": ("watt", 1.0),
    "$": ("US dollar", 1.0), "dollar": ("US dollar", 1.0), "dollars": ("US dollar", 1.0), "%": ("", 0.01),
    "percent": ("", 0.01), "times": ("", 1.0), "x": ("", 1.0), "×": ("", 1.0),
    "probability": ("", 1.0), "share": ("", 1.0), "fraction": ("", 1.0), "1": ("", 1.0), "count": ("", 1.0),
}  # fmt: skip
PURE = ("1", "count", "probability", "share", "fraction")  # units that nobody writes after a number
_ABOUT = re.compile(r"(?:[~≈]|about|around|approx\.?|roughly|ca\.)\s*", re.IGNORECASE)
_SUM = re.compile(r"[-+]?[\d.(](?:(?<=\d)[eE][-+]?\d+|[\d.,_()*/^+ ])*")  # arithmetic, but no 3-4; then comes the unit
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_SPACED = re.compile(r"(?<=\d) (?=\d{3}(?!\d))")
_PER_SECOND = re.compile(r"(?<=[bB])ps\b")
_BARE = re.compile(r"[\d.)]$")  # no unit at its end
_MOST = 80  # characters of a number
_NO_NUMBER = "That is not a number. Write it like 1.5 or 2e9."


def quantity(text: str, unit: str) -> float:
    """The value of `text` in `unit`; without a unit of its own it is taken to be in `unit`.

    Raises ValueError, with a sentence, where it is no number or of another kind.
    """
    text = _ABOUT.sub("", text.strip(), count=1) if _ABOUT.match(text.strip()) else text.strip()
    match = _SUM.match(text)
    if match is None or len(match[0]) > _MOST:
        raise ValueError(_NO_NUMBER)
    typed = match[0].rstrip("*/^+ ")
    value, said = _value(typed), text[len(typed) :].strip().rstrip(".")
    said = _PER_SECOND.sub("/s", said)
    if not said or said == unit:
        return value
    if said in _WORDS:  # "35 million" where the answer is in million USD, or in USD
        return value * _WORDS[said] / _scale(unit)[1]
    dimension, scale = _scale(said)
    wanted, of_unit = _scale(unit)
    if dimension != wanted:
        how = "Write it like 0.25, 1/4 or 25 %." if unit in PURE else f"Write the answer in {unit}."
        raise ValueError(f"{said!r} does not fit here. {how}")
    return value * scale / of_unit


def answer(typed: str, number: Number) -> float:
    """The value of what was typed, in the number's unit. Raises ValueError, as `quantity` does.

    A number without a unit may be meant in the unit without its prefix: 0.366 for 36.6 %, 112e9 for 112 GB. It counts
    as that only where it is right so, and wrong otherwise.
    """
    value = quantity(typed, number.unit)
    base = value / _scale(number.unit)[1] if _BARE.search(typed.strip()) and _of_ten(number.unit) else value
    return base if number.accepts(base) and not number.accepts(value) else value


def _of_ten(unit: str) -> bool:
    """Whether a unit is a power of ten of the one it is made from, as GB and % are and hours are not."""
    return math.isclose(power := math.log10(_scale(unit)[1]), round(power))


def is_plain(typed: str) -> bool:
    """Whether what was typed is a number and nothing else."""
    try:
        return math.isfinite(float(typed.replace(",", "")))
    except ValueError:
        return False


def told(value: float, unit: str) -> str:
    """A value with its unit, as it is said in a sentence."""
    return written(value) if unit in PURE else f"{written(value)} {unit}"


def _value(typed: str) -> float:
    """What arithmetic comes to. Raises ValueError."""
    plain = _SPACED.sub("", _THOUSANDS.sub(lambda found: found[0].replace(",", ""), typed))
    if "," in plain or "//" in plain or "**" in plain:
        raise ValueError(_NO_NUMBER)
    try:
        value = float(plain)
    except ValueError:
        try:
            value = compute(plain.replace("^", "**"))
        except ValueError:
            raise ValueError(_NO_NUMBER) from None
    if not math.isfinite(value):
        raise ValueError("That number is too large. Write it like 1.5 or 2e9.")
    return value


def written(value: float) -> str:
    """A value as one reads it easily: 20,000 and 1.8e25."""
    if float(value).is_integer() and 1e4 <= abs(value) < 1e12:
        return f"{value:,.0f}"
    return f"{value:g}".replace("e+", "e")


def _scale(unit: str) -> tuple[str, float]:
    """The dimension of a unit, and how many base units it is; an unknown word is a dimension of its own."""
    word, space, rest = unit.partition(" ")
    if space and word in _WORDS:
        dimension, size = _scale(rest.strip())
        return dimension, size * _WORDS[word]
    above, slash, below = unit.partition("/")
    if slash:
        (top, times), (bottom, parts) = _scale(above.strip()), _scale(below.strip())
        return f"{top}/{bottom}", times / parts
    if unit in _WHOLE:
        return _WHOLE[unit]
    return _prefixed(unit) or _prefixed(unit.upper()) or (unit.lower().removesuffix("s"), 1.0)  # "16 tb" is clear


def _prefixed(unit: str) -> tuple[str, float] | None:
    for base, (dimension, size) in _PREFIXED.items():
        prefix = unit.removesuffix(base)
        factor = {**_SI, **_IEC}.get(prefix) if unit.endswith(base) else None
        if factor is not None and (dimension != "byte" or factor >= 1):  # "mb" is no thousandth of a bit
            return dimension, size * factor
    return None
