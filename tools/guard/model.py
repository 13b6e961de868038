"""Fits the guard's model and writes it: ``make guard-model``; a test tells when it is stale.

A logistic regression over the features of cognition/guard/features.py. A text is seen in windows (and in each way of
reading it), and is an attack when one of them is: benign texts count with all of their windows, attacks with the one
that is most suspicious by the fit before. A weight is that of all texts and one of the side (users, or all else), which
is held closer to nothing. Weights that speak *against* an attack are held closer too: what is benign around an attack
must not outweigh it. The level at which a text is suspicious is set by a cross-validation over what is fitted to.

Nothing is drawn but by a seed, and sums are made in one order, so that the same texts come to the same bytes.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cognition.guard.features import BUCKETS, kind_features, name_feature, near, pair_features, word_features
from cognition.guard.injection import Source
from cognition.guard.model import FILE, LEAST
from cognition.guard.reading import Reading, readings
from tools.guard.corpus import Row, digest, training_rows

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

WORDS_UNIT = 4.0
"""What a word counts beside a name (a disguise), in a window of one token."""
SIDE = 0.5
FREEDOM = 3.0
AGAINST = 4.0
"""How much closer to nothing a weight is held that speaks against an attack."""
STEPS, KEPT = 40, 7
FOLDS, SEEDS = 3, (1,)
MOST_FALSE = 0.017
"""Share of the benign texts of the corpus's half ``tune`` that may be flagged, in the cross-validation."""
BIGGEST = 127


@dataclass(frozen=True, slots=True)
class Windows:
    """Of all rows: ``row`` of each window; ``at``, ``bucket``, ``value``: its features, one behind the other."""

    rows: Sequence[Row]
    row: Ints
    at: Ints
    bucket: Ints
    value: Floats
    buckets: Ints

    @property
    def users(self) -> Mask:
        return np.array([each.source is Source.USER for each in self.rows])[self.row]

    @property
    def attack(self) -> Mask:
        return np.array([each.attack for each in self.rows])


def windows_of(rows: Sequence[Row]) -> Windows:
    row: list[int] = []
    at: list[Ints] = []
    bucket: list[Ints] = []
    value: list[Floats] = []
    for number, each in enumerate(rows):
        for reading in readings(each.text):
            by_token = _features(reading)
            for begin, end in reading.windows():
                found: dict[int, float] = {}
                for features in by_token[begin:end]:
                    for feature, worth in features:
                        found[feature] = found.get(feature, 0.0) + worth
                unit = WORDS_UNIT / math.sqrt(max(LEAST, end - begin))
                found = {feature: worth * unit for feature, worth in found.items()}
                for name in reading.names:
                    feature = name_feature(name)
                    found[feature] = found.get(feature, 0.0) + 1.0
                at.append(np.full(len(found), len(row)))
                bucket.append(np.fromiter(found, np.int64, len(found)))
                value.append(np.fromiter(found.values(), np.float64, len(found)))
                row.append(number)
    buckets, compact = np.unique(np.concatenate(bucket), return_inverse=True)
    return Windows(rows, np.array(row), np.concatenate(at), compact, np.concatenate(value), buckets)


def _features(reading: Reading) -> list[list[tuple[int, float]]]:
    seen = reading.seen
    made = [
        [*word_features(token), (pair, 1.0)]
        for token, pair in zip(seen.tokens, pair_features(seen.numbers), strict=True)
    ]
    for place, other, kinds in near(seen.kinds):
        made[place] += [(feature, 1.0) for feature in kind_features(other, kinds)]
    return made


def odds_of(seen: Windows, weights: Floats) -> Floats:
    """Log odds of each window."""
    return _odds(weights, seen.at, seen.bucket, seen.value, seen.users, len(seen.buckets))


def _odds(weights: Floats, at: Ints, bucket: Ints, value: Floats, users: Mask, size: int) -> Floats:
    special = bucket + size * np.where(users[at], 1, 2)
    made = np.bincount(at, (weights[bucket] + SIDE * weights[special]) * value, minlength=len(users))
    bias = 3 * size
    total: Floats = made + weights[bias] + weights[bias + np.where(users, 1, 2)]
    return total


def worst_of(seen: Windows, odds: Floats) -> Ints:
    """The most suspicious window of each row; -1 where it has none."""
    order = np.lexsort((odds, seen.row))
    last = np.append(seen.row[order][1:] != seen.row[order][:-1], True)
    worst = np.full(len(seen.rows), -1)
    worst[seen.row[order][last]] = order[last]
    return worst


def fitted(seen: Windows, used: Mask) -> Floats:
    """Weights fitted to the rows that are ``used``; the first fit says which window of an attack is the one."""
    length = np.bincount(seen.at, minlength=len(seen.row)).astype(np.float64)
    weights = np.zeros(3 * len(seen.buckets) + 3)
    for steps, odds in ((STEPS // 2, length), (STEPS, None)):
        worst = worst_of(seen, odds_of(seen, weights) if odds is None else odds)
        taken = used[seen.row] & (~seen.attack[seen.row] | (worst[seen.row] == np.arange(len(seen.row))))
        weights = _descended(seen, taken, weights, steps)
    return weights


def _descended(seen: Windows, taken: Mask, weights: Floats, steps: int) -> Floats:
    """L-BFGS on the windows that are ``taken``."""
    size, features = len(seen.buckets), taken[seen.at]
    at = (np.cumsum(taken) - 1)[seen.at[features]]
    bucket, value, users = seen.bucket[features], seen.value[features], seen.users[taken]
    special = bucket + size * np.where(users[at], 1, 2)
    rows = seen.row[taken]
    sign = np.where(seen.attack[rows], 1.0, -1.0)
    counts = np.array([row.weight for row in seen.rows])[rows]
    held = np.full(3 * size + 3, 1 / FREEDOM)
    held[3 * size :] = 0.05
    is_word = np.arange(3 * size + 3) < 3 * size

    def loss(weights: Floats) -> tuple[float, Floats]:
        pull = held * np.where((weights < 0) & is_word, AGAINST, 1.0) * weights
        margin = np.clip(sign * _odds(weights, at, bucket, value, users, size), -500, 500)
        missed = -sign * counts / (1 + np.exp(margin))
        spread = missed[at] * value
        slope = pull.copy()
        slope[:size] += np.bincount(bucket, spread, minlength=size)
        slope[: 3 * size] += SIDE * np.bincount(special, spread, minlength=3 * size)
        slope[3 * size :] += (missed.sum(), missed[users].sum(), missed[~users].sum())
        return float((np.logaddexp(0, -margin) * counts).sum() + 0.5 * (pull * weights).sum()), slope

    moves: list[tuple[Floats, Floats]] = []
    cost, slope = loss(weights)
    for _ in range(steps):
        way = _direction(slope, moves)
        length, gain = 1.0, float((slope * way).sum())
        while True:
            new = weights - length * way
            new_cost, new_slope = loss(new)
            if new_cost <= cost - 1e-4 * length * gain or length < 1e-6:
                break
            length /= 2
        moved, turned = new - weights, new_slope - slope
        if float((moved * turned).sum()) > 1e-12:
            moves = [*moves, (moved, turned)][-KEPT:]
        done = abs(cost - new_cost) < 1e-5 * abs(cost)
        weights, cost, slope = new, new_cost, new_slope
        if done:
            break
    return weights


def _direction(slope: Floats, moves: list[tuple[Floats, Floats]]) -> Floats:
    way, steps = slope.copy(), []
    for moved, turned in reversed(moves):
        step = float((moved * way).sum()) / float((moved * turned).sum())
        way -= step * turned
        steps.append(step)
    if moves:
        moved, turned = moves[-1]
        way *= float((moved * turned).sum()) / float((turned * turned).sum())
    else:
        way *= 0.003
    for (moved, turned), step in zip(moves, reversed(steps), strict=True):
        way += moved * (step - float((turned * way).sum()) / float((moved * turned).sum()))
    return way


def cross_validated(seen: Windows, seed: int) -> Floats:
    """Log odds of each row by weights that were fitted without its origin."""
    rng = np.random.RandomState(seed)
    fold: dict[tuple[bool, str], int] = {}
    for attack in (False, True):
        origins = sorted({row.origin for row in seen.rows if row.attack is attack})
        rng.shuffle(origins)
        fold |= {(attack, origin): number % FOLDS for number, origin in enumerate(origins)}
    of_row = np.array([fold[row.attack, row.origin] for row in seen.rows])
    made = np.full(len(seen.rows), -np.inf)
    for number in range(FOLDS):
        odds = odds_of(seen, fitted(seen, of_row != number))
        worst = worst_of(seen, odds)
        tested = (of_row == number) & (worst >= 0)
        made[tested] = odds[worst[tested]]
    return made


def level_of(seen: Windows, odds: Sequence[Floats]) -> float:
    """The log odds at which at most :data:`MOST_FALSE` of the benign rows that the aim is about are flagged."""
    benign = np.array([row.tuning and not row.attack for row in seen.rows])
    found = np.sort(np.concatenate([each[benign] for each in odds]))[::-1]
    return float(found[int(len(found) * MOST_FALSE)]) + 1e-6


def written(seen: Windows, weights: Floats, level: float) -> bytes:
    """The model as it is kept: a line of JSON, and the packed tables."""
    size = len(seen.buckets)
    tables = np.zeros((2, BUCKETS))
    for side in (0, 1):
        tables[side, seen.buckets] = weights[:size] + SIDE * weights[size * (side + 1) : size * (side + 2)]
    names = {name_feature(name) for name in _names(seen.rows)}
    others = np.array([bucket not in names for bucket in range(BUCKETS)])
    tables[:, others] *= WORDS_UNIT
    unit = float(np.abs(tables).max()) / BIGGEST
    packed = zlib.compress(np.rint(tables / unit).astype(np.int8).tobytes(), 9)
    bias = weights[3 * size :]
    levels = [round(level - float(bias[0] + bias[side]), 4) for side in (1, 2)]
    head = {"unit": float(f"{unit:.6g}"), "level": levels, "made_of": digest()}
    return json.dumps(head).encode() + b"\n" + packed


def _names(rows: Sequence[Row]) -> set[str]:
    return {name for row in rows for reading in readings(row.text) for name in reading.names}


def made(say: Callable[[str], None] = lambda said: None) -> bytes:
    """The model, from nothing but what lies here. ``say`` is told how the cross-validation went."""
    seen = windows_of(training_rows())
    odds = [cross_validated(seen, seed) for seed in SEEDS]
    level = level_of(seen, odds)
    tuning = np.array([row.tuning for row in seen.rows])
    for name, of in (("half tune", tuning), ("written for it", ~tuning)):
        for label, attack in (("attacks", True), ("benign", False)):
            taken = of & (seen.attack == attack)
            share = np.mean([(each[taken] >= level).mean() for each in odds])
            say(f"{name}, {label}: {taken.sum()} texts, {share:.1%} flagged in the cross-validation")
    return written(seen, fitted(seen, np.ones(len(seen.rows), np.bool_)), level)


if __name__ == "__main__":
    FILE.write_bytes(made(print))
