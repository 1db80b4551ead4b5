"""Charts as SVG and number tables as PNG images, as text inside a page, without a drawing library."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

PLOT_WIDTH, PLOT_HEIGHT = 480, 270
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 10, 42  # margins around the curves, in pixels
MOST_POINTS = 250  # points drawn of a curve; more make the page large without a visible difference
SHADES = 127  # shades on either side of zero; together with zero they must fit into a palette of 256 colours
POSITIVE_COLOUR, NEGATIVE_COLOUR = (47, 129, 247), (229, 83, 75)  # visible on white and on black

Curves = Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Axis:
    """A map from numbers to positions between the two ends of an axis."""

    name: str
    low: float
    high: float
    ends: tuple[float, float]
    log: bool = False

    @classmethod
    def of(cls, name: str, values: Any, ends: tuple[float, float], log: bool) -> Axis:
        """An axis that covers the given values."""
        low, high = (np.min(values), np.max(values)) if len(values) else (1.0, 10.0)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        return cls(name, float(low), float(high), ends, log)

    def place(self, values: Any) -> np.ndarray:
        """The positions of values along the axis."""
        low, high, values = self.low, self.high, np.asarray(values, dtype=float)
        if self.log:
            low, high, values = np.log10(low), np.log10(high), np.log10(values)
        return self.ends[0] + (values - low) / (high - low) * (self.ends[1] - self.ends[0])

    def ticks(self) -> list[float]:
        """Round numbers for the ticks, about five of them."""
        if self.log:
            first, last = np.floor(np.log10(self.low)), np.ceil(np.log10(self.high))
            powers = 10.0 ** np.arange(first, last + 1, max(1, (last - first) // 5))
            factors = (1,) if self.high / self.low > 200 else (1, 2, 5)
            found = [power * f for power in powers for f in factors]
        else:
            rough = (self.high - self.low) / 5
            unit = 10 ** np.floor(np.log10(rough))
            step = unit * next(f for f in (1, 2, 5, 10) if f * unit >= rough * (1 - 1e-9))
            count = int((self.high - self.low) / step) + 2
            found = [(np.ceil(self.low / step) + i) * step for i in range(count)]
        slack = 1e-9 * (self.high - self.low)
        return [float(t) for t in found if self.low - slack <= t <= self.high + slack]


def drawable(x: Any, y: Any, log_x: bool, log_y: bool) -> tuple[np.ndarray, np.ndarray]:
    """The points that can be drawn: finite, above zero on logarithmic axes, at most MOST_POINTS of them."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    shown = np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not log_x)) & ((y > 0) | (not log_y))
    x, y = x[shown], y[shown]
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).astype(int))
    return x[kept], y[kept]


def chart(
    curves: Curves,
    names: tuple[str, str],
    log: tuple[bool, bool] = (False, False),
    level: float | None = None,
    mark: float | None = None,
) -> str:
    """A figure of named curves, with dashed lines at ``level`` (horizontal) and ``mark`` (vertical).

    names : the names of the axes.
    log : whether each axis is logarithmic.

    The result is an empty text if no point can be drawn.
    """
    points = {name: drawable(*curve, *log) for name, curve in curves.items()}
    points = {name: curve for name, curve in points.items() if len(curve[0])}
    if not points:
        return ""
    spread = [np.concatenate([curve[side] for curve in points.values()]) for side in (0, 1)]
    if level is not None:
        spread[1] = np.append(spread[1], level)
    across = Axis.of(names[0], spread[0], (LEFT, PLOT_WIDTH - RIGHT), log[0])
    up = Axis.of(names[1], spread[1], (PLOT_HEIGHT - BOTTOM, TOP), log[1])
    parts = [*frame(across, up), *lines_at(across, up, level, mark)]
    for number, (x, y) in enumerate(points.values()):
        parts += curve_of(across.place(x), up.place(y), number)
    legend = "".join(f'<span class="c{i % 6}">{escape(n)}</span>' for i, n in enumerate(points))
    label = escape(f"{names[1]} against {names[0]}")
    return (
        f'<figure><svg viewBox="0 0 {PLOT_WIDTH} {PLOT_HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg><figcaption>{legend}</figcaption></figure>"
    )


def curve_of(x: np.ndarray, y: np.ndarray, number: int) -> list[str]:
    """A line, with dots at its points if it has fewer than 30."""
    colour, places = f"c{number % 6}", list(zip(x.tolist(), y.tolist(), strict=True))
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    dots = [f'<circle class="{colour}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in places]
    return [f'<polyline class="{colour}" points="{line}"/>', *(dots if len(dots) < 30 else [])]


def frame(across: Axis, up: Axis) -> list[str]:
    """The grid, the tick labels and the names of the axes."""
    parts = []
    for value, x in zip(across.ticks(), across.place(across.ticks()), strict=True):
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{PLOT_HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{PLOT_HEIGHT - BOTTOM + 16}">{value:g}</text>')
    for value, y in zip(up.ticks(), up.place(up.ticks()), strict=True):
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{PLOT_WIDTH - RIGHT}"/>')
        parts.append(f'<text class="side" x="{LEFT - 6}" y="{y + 4:.1f}">{value:g}</text>')
    middle = (TOP + PLOT_HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text x="{(LEFT + PLOT_WIDTH - RIGHT) / 2}" y="{PLOT_HEIGHT - 6}">{escape(across.name)}</text>'
    )
    parts.append(f'<text transform="rotate(-90)" x="{-middle}" y="14">{escape(up.name)}</text>')
    return parts


def lines_at(across: Axis, up: Axis, level: float | None, mark: float | None) -> list[str]:
    """Dashed lines at a level and at a mark, if given."""
    parts = []
    if level is not None:
        parts.append(f'<path class="dash" d="M{LEFT} {up.place(level):.1f}H{PLOT_WIDTH - RIGHT}"/>')
    if mark is not None:
        parts.append(
            f'<path class="dash" d="M{across.place(mark):.1f} {TOP}V{PLOT_HEIGHT - BOTTOM}"/>'
        )
    return parts


def picture(values: np.ndarray, largest: float) -> str:
    """The data URL of a table of numbers as an image: blue above zero, red below, transparent at zero."""
    scaled = values / largest if largest > 0 else np.zeros_like(values)
    shades = np.clip(np.round(scaled * SHADES), -SHADES, SHADES).astype(int) + SHADES
    tones = range(-SHADES, SHADES + 1)
    colours = bytes(c for tone in tones for c in (POSITIVE_COLOUR if tone > 0 else NEGATIVE_COLOUR))
    opaque = bytes(min(255, 2 * abs(tone)) for tone in tones)
    height, width = values.shape
    rows = b"".join(b"\0" + row.tobytes() for row in shades.astype(np.uint8))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)  # palette, one byte a pixel
    chunks: Sequence[tuple[bytes, bytes]] = (
        (b"IHDR", head),
        (b"PLTE", colours),
        (b"tRNS", opaque),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()
