"""Compares the microscaling formats with the element types of ml-dtypes: every code, and random blocks.

Usage: mx_check.py   (from the repository's root; needs build/release/tools/reference/mx_blocks)

Scales are found again here, in float64, from the definitions: OCP MX 1.0, section 6.3, for `floor`, the least with
which no element is cut off for `ceil`, and of the two the one with the smaller squared error for `search`.
"""
import subprocess, sys
import ml_dtypes as ml
import numpy as np

PROGRAM = "build/release/tools/reference/mx_blocks"
BLOCKS = 10_000
FORMATS = {  # name: element type, exponent of the largest number, the largest number
    "mxfp8": (ml.float8_e4m3fn, 8, 448), "mxfp8-e5m2": (ml.float8_e5m2, 15, 57344),
    "mxfp6": (ml.float6_e2m3fn, 2, 7.5), "mxfp6-e3m2": (ml.float6_e3m2fn, 4, 28),
    "mxfp4": (ml.float4_e2m1fn, 2, 6), "mxint8": (np.int8, 0, 127 / 64),
}


def elements(kind, largest, x):
    """Codes and numbers of x, in the scale's units."""
    if kind is np.int8:
        codes = np.clip(np.rint(x * 64), -127, 127).astype(np.int8)
        return codes.view(np.uint8), codes / 64.0
    numbers = np.clip(x, -largest, largest).astype(np.float32).astype(kind)
    return numbers.view(np.uint8), numbers.astype(np.float64)


def expected(name, choice, x):
    kind, emax, largest = FORMATS[name]
    amax = np.abs(x).max(1, keepdims=True)
    floor = np.maximum(np.frexp(np.maximum(amax, 2.0**-149))[1] - 1 - emax, -127)
    cut = np.ldexp(amax, -floor) > largest
    results = []
    for exponent in (floor, floor + cut):
        codes, numbers = elements(kind, largest, np.ldexp(x, -exponent))
        values = np.ldexp(numbers, exponent)
        results.append((exponent, codes, values, ((values - x) ** 2).sum(1, keepdims=True)))
    low, high = results
    better = high[3] < low[3] if choice == "search" else np.full_like(cut, choice == "ceil")
    picked = [np.where(better, b, a) for a, b in zip(low, high)]
    close = np.abs(high[3] - low[3]) < 1e-5 * low[3] if choice == "search" else np.zeros_like(cut)
    return picked[0] + 127, picked[1], picked[2], close[:, 0]


def ours(name, choice, x):
    out = subprocess.run([PROGRAM, name, choice], input=x.astype(np.float32).tobytes(), capture_output=True, check=True)
    rows = np.frombuffer(out.stdout, np.uint8).reshape(len(x), 1 + 32 + 128)
    return rows[:, :1], rows[:, 1:33], rows[:, 33:].copy().view(np.float32)


def blocks(name, random):
    """Sizes of all kinds; and every number of the format, and the middles between them, beside the largest."""
    kind, _, largest = FORMATS[name]
    x = random.standard_normal((BLOCKS, 32)) * np.ldexp(1.0, random.integers(-60, 60, (BLOCKS, 1)))
    x *= np.ldexp(1.0, -random.integers(0, 14, (BLOCKS, 32)))
    codes = np.arange(256, dtype=np.uint8)
    numbers = codes.view(np.int8) / 64.0 if kind is np.int8 else codes[:1 << (8 if "8" in name else 6 if "6" in name else 4)].view(kind).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    every = np.concatenate((numbers, (numbers[1:] + numbers[:-1]) / 2))
    exact = np.full((-(-len(every) // 31), 32), float(largest))
    exact[:, 1:].flat[:len(every)] = every
    return np.concatenate((x, exact)).astype(np.float32).astype(np.float64)


def main():
    random, wrong = np.random.default_rng(1), 0
    for name in FORMATS:
        x = blocks(name, random)
        for choice in ("floor", "ceil", "search"):
            scales, codes, values, close = expected(name, choice, x)
            our_scales, our_codes, our_values = ours(name, choice, x)
            same = (our_scales == scales).all(1) & (our_codes == codes).all(1) & (our_values == values).all(1)
            bad = int((~same & ~close).sum())
            print(f"{name:<11} {choice:<6} {len(x)} blocks, {bad} differ")
            wrong += bad
    return wrong > 0


sys.exit(main())
