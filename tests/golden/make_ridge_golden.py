#!/usr/bin/env python3
"""Reference answers of the ridge fit, for test_ridge.c: writes ridge_golden.h beside this script.

Each answer is a least-squares solution of the explicit, augmented rows by numpy.linalg.lstsq (SVD),
not of normal equations: rows sqrt(lambda) I towards the prior, and with a bias an unpenalised
column of ones. Inputs are multiples of 1/16, so that f32 sums of their products are exact.

usage: make_ridge_golden.py
"""

import pathlib

import numpy

OUT = pathlib.Path(__file__).resolve().parent / "ridge_golden.h"
ROWS, UNITS, FEATURES, OUTPUTS = 40, 5, 2, 3
KEPT = [0, 2, 3]
LABELS = [0, 1, 0, 2, 1]
WIDTH = UNITS * FEATURES


def sixteenths(random, *shape):
    return numpy.round(random.normal(size=shape) * 16) / 16


def prior_of(weight, folds):
    """The data-free consumer: kept columns, or sums of the members' columns."""
    blocks = weight.reshape(OUTPUTS, UNITS, FEATURES)
    if not folds:
        return blocks[:, KEPT].reshape(OUTPUTS, -1)
    merged = numpy.zeros((OUTPUTS, max(LABELS) + 1, FEATURES))
    for unit, label in enumerate(LABELS):
        merged[:, label] += blocks[:, unit]
    return merged.reshape(OUTPUTS, -1)


def fit(z, y, target, alpha, bias):
    """min ||y - z W'^T - 1 d^T||^2 + lambda ||W' - target||^2; returns W', d, lambda and errors."""
    spread = z - z.mean(axis=0) if bias else z
    penalty = alpha * (spread**2).sum() / z.shape[1]
    ridge = numpy.sqrt(penalty) * numpy.eye(z.shape[1])
    rows = numpy.vstack([z, ridge])
    goals = numpy.vstack([y, numpy.sqrt(penalty) * target.T])
    if bias:
        ones = numpy.concatenate([numpy.ones(len(z)), numpy.zeros(len(ridge))])
        rows = numpy.hstack([rows, ones[:, None]])
    answer = numpy.linalg.lstsq(rows, goals, rcond=None)[0].T
    weight, shift = answer[:, : z.shape[1]], answer[:, z.shape[1] :]
    shift = shift[:, 0] if bias else numpy.zeros(OUTPUTS)
    return weight, shift, penalty, y - z @ weight.T - shift


def cases():
    random = numpy.random.default_rng(1)
    x = sixteenths(random, ROWS, WIDTH) + 0.5
    x[:, 2:4] += x[:, 0:2]
    weight = sixteenths(random, OUTPUTS, WIDTH)
    given = x @ weight.T + 4 * sixteenths(random, ROWS, OUTPUTS)
    given = numpy.round(given * 16) / 16
    folded = numpy.maximum(sixteenths(random, ROWS, len(KEPT) * FEATURES) + 0.25, 0)
    chosen = x.reshape(ROWS, UNITS, FEATURES)[:, KEPT].reshape(ROWS, -1)
    inputs = {"x": x, "consumer": weight, "given": given, "folded": folded}
    found = []
    for folds, own, prior, bias, alpha in [
        (0, 1, 0, 0, 1e-3),
        (0, 1, 1, 0, 1e-2),
        (0, 1, 1, 1, 1e-1),
        (0, 0, 0, 1, 1e-3),
        (0, 0, 1, 1, 1e-2),
        (1, 0, 0, 0, 1e-3),
        (1, 0, 1, 1, 1e-2),
    ]:
        z = folded if folds else chosen
        y = x @ weight.T if own else given
        plain = prior_of(weight, folds)
        target = plain if prior else numpy.zeros_like(plain)
        fitted, shift, penalty, left = fit(z, y, target, alpha, bias)
        before = ((y - z @ plain.T) ** 2).sum() / (y**2).sum()
        after = (left**2).sum() / (y**2).sum()
        found.append((folds, own, prior, bias, alpha, penalty, before, after, fitted, shift))
    return inputs, found


def listing(values, suffix=""):
    texts = [repr(float(v)) + suffix for v in numpy.ravel(values)]
    lines = [", ".join(texts[i : i + 6]) for i in range(0, len(texts), 6)]
    return "{" + ",\n     ".join(lines) + "}"


def main():
    inputs, found = cases()
    lines = [
        f"/* Written by make_ridge_golden.py with numpy {numpy.__version__}. */",
        "#ifndef GRAIL_TESTS_GOLDEN_RIDGE_GOLDEN_H",
        "#define GRAIL_TESTS_GOLDEN_RIDGE_GOLDEN_H",
        "",
        "#include <stdint.h>",
        "",
        "enum {",
        f"    GOLDEN_ROWS = {ROWS},",
        f"    GOLDEN_UNITS = {UNITS},",
        f"    GOLDEN_FEATURES = {FEATURES},",
        f"    GOLDEN_WIDTH = {WIDTH},",
        f"    GOLDEN_OUTPUTS = {OUTPUTS},",
        f"    GOLDEN_KEPT = {len(KEPT)},",
        f"    GOLDEN_CASES = {len(found)}",
        "};",
        "",
        f"static const int64_t golden_kept[] = {{{', '.join(map(str, KEPT))}}};",
        f"static const int64_t golden_labels[] = {{{', '.join(map(str, LABELS))}}};",
        "",
    ]
    for name, values in inputs.items():
        lines += [f"static const float golden_{name}[] =", f"    {listing(values, 'F')};", ""]
    lines += [
        "static const struct golden_case {",
        "    int folds, own_target, prior, bias;",
        "    double alpha, lambda, error_before, error_after;",
        "    double weight[GOLDEN_OUTPUTS * GOLDEN_KEPT * GOLDEN_FEATURES];",
        "    double bias_change[GOLDEN_OUTPUTS];",
        "} golden_cases[] = {",
    ]
    for case in found:
        head = ", ".join(repr(v) if isinstance(v, int) else repr(float(v)) for v in case[:8])
        lines += [f"    {{{head},", f"     {listing(case[8])},", f"     {listing(case[9])}}},"]
    lines += ["};", "", "#endif"]
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
