"""Collectives that repeat: of many rounds of the same, the first and the last are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grader.trace.scene import NEVER, Band, Fold, Scene

LEAST = 4  # collectives that are left out, or nothing is
MOST_PERIOD = 24


def folded(scene: Scene) -> Scene:
    """The scene without what only repeats, and with a word on each place where that is left out."""
    bands = sorted(scene.bands, key=lambda band: (band.moving, band.since))
    folds = [fold for fold in _folds(scene, bands) if _quiet(scene, fold)]
    if not folds:
        return scene

    def drawn(since: float, until: float) -> bool:
        return not any(fold.since <= since and until <= fold.until for fold in folds)

    return replace(
        scene,
        bands=[band for band in scene.bands if drawn(band.moving, band.until)],
        waits=[wait for wait in scene.waits if drawn(wait.since, wait.until)],
        stretches=[each for each in scene.stretches if drawn(each.since, each.until)],
        folds=tuple(folds),
    )


def _folds(scene: Scene, bands: Sequence[Band]) -> list[Fold]:
    """What can be left out of these, which follow each other."""
    looks = [_look(scene, band) for band in bands]
    best = (0, 0, 0, 0)  # how many are left out, by periods as short as can be; where, of how many, how often in all
    for period in range(1, min(MOST_PERIOD, len(bands) // 3) + 1):
        start = 0
        while start + 2 * period < len(bands):
            end = start + period
            while end < len(bands) and looks[end] == looks[end - period]:
                end += 1
            times = (end - start) // period
            best = max(best, ((times - 2) * period, -period, -start, times))
            start = max(start + 1, end - period + 1)
    left_out, period, start, times = best[0], -best[1], -best[2], best[3]
    if left_out < LEAST:
        return []
    after = start + (times - 1) * period  # the last of them is drawn again
    fold = Fold(bands[start + period].moving, bands[after].moving, period, times - 2)
    alone = all(band.until <= fold.since for band in bands[: start + period])
    alone = alone and all(band.until <= fold.until for band in bands[start + period : after])
    rest = _folds(scene, bands[: start + period]), _folds(scene, bands[after:])
    return [*rest[0], *([fold] if alone else []), *rest[1]]


def _look(scene: Scene, band: Band) -> object:
    """What makes two collectives look the same: what, on whom, how many bytes, and for how long."""
    if band.until == NEVER or band.mismatched or band.missing:
        return id(band)
    took = round((band.until - band.moving) / scene.unit.size, 6)
    return band.names, band.group, tuple(sorted((op.rank, op.size) for op in band.parts)), took


def _quiet(scene: Scene, fold: Fold) -> bool:
    """Whether only collectives, and what is computed for them, are left out."""
    others = [(arrow.since, arrow.until) for arrow in scene.arrows] + [(each.at, each.at) for each in scene.loose]
    others += [(each.since, each.until) for each in scene.stretches if each.span.what != "compute" or each.span.name]
    ended = any(fold.since < end < fold.until for end in scene.finish)
    return not ended and not any(since < fold.until and until > fold.since for since, until in others)
