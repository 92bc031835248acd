"""Draft and verify, enumerated exactly, and what a round brings on a named machine.

target = chain({"": {"a": F(1, 2), ...}, "a": {...}})
joint(target, draft, k=2, length=2)      # the distribution of the first two tokens, as fractions
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction

from courselib.inference import Machine, Model, seconds

Chances = Mapping[str, Fraction]
Language = Callable[[str], Chances]  # from the text so far to the next token's distribution


def alone(target: Language, length: int, text: str = "") -> dict[str, Fraction]:
    """The distribution of the first `length` tokens if the target writes alone."""
    if len(text) == length:
        return {text: Fraction(1)}
    found = defaultdict[str, Fraction](Fraction)
    for token, chance in target(text).items():
        for whole, rest in alone(target, length, text + token).items():
            found[whole] += chance * rest
    return {whole: chance for whole, chance in found.items() if chance}


def round_from(
    target: Language, draft: Language, k: int, text: str, refused: Callable[[Chances, Chances], Chances]
) -> dict[str, Fraction]:
    """What one round of up to k drafts adds to `text`; `refused(p, q)` is what is drawn from after a refusal."""
    found = defaultdict[str, Fraction](Fraction)
    p = target(text)
    if k == 0:
        return dict(p)
    q = draft(text)
    lost = Fraction(0)
    for token, chance in q.items():
        if chance:
            accepted = min(Fraction(1), p.get(token, Fraction(0)) / chance)
            lost += chance * (1 - accepted)
            if accepted:
                for rest, of_it in round_from(target, draft, k - 1, text + token, refused).items():
                    found[token + rest] += chance * accepted * of_it
    if lost:
        for token, chance in refused(p, q).items():
            found[token] += lost * chance
    return {added: chance for added, chance in found.items() if chance}


def residual(p: Chances, q: Chances) -> Chances:
    """norm(max(0, p - q)): Leviathan et al. 2023, section 2.3."""
    left = {token: max(Fraction(0), chance - q.get(token, Fraction(0))) for token, chance in p.items()}
    return {token: chance / sum(left.values()) for token, chance in left.items()}


def joint(
    target: Language,
    draft: Language,
    k: int,
    length: int,
    refused: Callable[[Chances, Chances], Chances] = residual,
    text: str = "",
) -> dict[str, Fraction]:
    """The distribution of the first `length` tokens that rounds of k drafts write."""
    if len(text) >= length:
        return {text[:length]: Fraction(1)}
    found = defaultdict[str, Fraction](Fraction)
    for added, chance in round_from(target, draft, k, text, refused).items():
        for whole, rest in joint(target, draft, k, length, refused, text + added).items():
            found[whole] += chance * rest
    return dict(found)


def tokens_a_round(acceptance: float, k: int) -> float:
    """Expected tokens of a round, if each draft is accepted with this chance (Leviathan et al. 2023, equation 1)."""
    if acceptance == 1:
        return k + 1.0
    return (1 - acceptance ** (k + 1)) / (1 - acceptance)


def speed_up(
    acceptance: float, k: int, batch: int, context: int, target: Model, draft: Model, machine: Machine
) -> float:
    """Tokens a second of draft and verify over those of the target alone, on the same machine.

    A round takes k calls of the draft, one token a sequence, and one of the target with k + 1.
    """
    alone = seconds(target, machine, batch, batch * context)
    verify = seconds(target, machine, batch * (k + 1), batch * context)
    drafting = k * seconds(draft, machine, batch, batch * context)
    return tokens_a_round(acceptance, k) * alone / (drafting + verify)
