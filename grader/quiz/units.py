"""Quantities as people write them: "16 TB", "16e12 B", "16,000 GB", "128 Tbit", "19 min", "1.5 million USD".

Prefixes are those of the SI (BIPM, 9th edition, section 3) and of IEC 80000-13 (KiB, MiB, ...).
"""

from __future__ import annotations

import math
import re

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
    "B": ("byte", 1.0), "bit": ("byte", 0.125), "s": ("second", 1.0), "W": ("watt", 1.0), "Wh": ("watt hour", 1.0),
    "FLOP": ("operation", 1.0), "USD": ("US dollar", 1.0),
}  # fmt: skip
_WHOLE = {
    "byte": ("byte", 1.0), "bytes": ("byte", 1.0), "bits": ("byte", 0.125), "sec": ("second", 1.0),
    "second": ("second", 1.0), "seconds": ("second", 1.0), "min": ("second", 60.0), "minute": ("second", 60.0),
    "minutes": ("second", 60.0), "h": ("second", 3600.0), "hour": ("second", 3600.0), "hours": ("second", 3600.0),
    "d": ("second", 86400.0), "day": ("second", 86400.0), "days": ("second", 86400.0),
    "week": ("second", 604800.0), "weeks": ("second", 604800.0), "watt": ("watt", 1.0), "watts": ("watt", 1.0),
    "$": ("US dollar", 1.0), "dollar": ("US dollar", 1.0), "dollars": ("US dollar", 1.0), "%": ("", 0.01),
    "percent": ("", 0.01), "times": ("", 1.0), "x": ("", 1.0),
}  # fmt: skip
_NUMBER = re.compile(r"([-+]?(?:\d{1,3}(?:,\d{3})+|[\d_]+)?(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*((?![.,]).*)", re.DOTALL)


def quantity(text: str, unit: str) -> float:
    """The value of `text` in `unit`; without a unit of its own it is taken to be in `unit`.

    Raises ValueError, with a sentence, where it is no number or of another kind.
    """
    match = _NUMBER.fullmatch(text.strip().lstrip("~≈").strip())
    digits = match[1].replace(",", "") if match else ""
    if match is None or not any(letter.isdigit() for letter in digits):
        raise ValueError("That is not a number. Write it like 1.5 or 2e9.")
    value, said = float(digits.replace("_", "")), match[2].strip()
    if not math.isfinite(value):
        raise ValueError("That number is too large. Write it like 1.5 or 2e9.")
    if not said or said.casefold() == unit.casefold():
        return value
    if said in _WORDS:  # "35 million" where the answer is in million USD, or in USD
        return value * _WORDS[said] / _scale(unit)[1]
    dimension, scale = _scale(said)
    wanted, of_unit = _scale(unit)
    if dimension != wanted:
        raise ValueError(f"{said!r} does not fit here. Write the answer in {unit}.")
    return value * scale / of_unit


def written(value: float) -> str:
    """A value as one reads it easily: 20,000 and 1.8e25."""
    if value.is_integer() and 1e4 <= abs(value) < 1e12:
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
        if unit.endswith(base) and (prefix in _SI or prefix in _IEC):
            return dimension, size * {**_SI, **_IEC}[prefix]
    return None
