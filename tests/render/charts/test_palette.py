"""The colours of series stay apart for people with any kind of colour blindness."""

import re
from itertools import combinations, pairwise
from math import dist

import pytest

from turnlog.render.charts.report_charts import STYLES

Colour = tuple[float, float, float]
Matrix = tuple[Colour, Colour, Colour]
# Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
VISION: dict[str, Matrix] = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
XYZ: Matrix = (
    (0.4124, 0.3576, 0.1805),
    (0.2126, 0.7152, 0.0722),
    (0.0193, 0.1192, 0.9505),
)


def variables() -> dict[str, tuple[str, str]]:
    """The light and dark value of each colour in the theme."""
    text = (STYLES / "theme.css").read_text("utf-8")
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", text)
    return {name: (light, dark) for name, light, dark in found}


def linear(colour: str) -> Colour:
    def channel(place: int) -> float:
        value = int(colour[place : place + 2], 16) / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    return channel(1), channel(3), channel(5)


def times(matrix: Matrix, colour: Colour) -> Colour:
    one, two, three = (
        sum(factor * value for factor, value in zip(row, colour, strict=True)) for row in matrix
    )
    return one, two, three


def lab(colour: Colour) -> Colour:
    clipped = tuple(min(max(value, 0), 1) for value in colour)
    x, y, z = (
        value / white
        for value, white in zip(times(XYZ, clipped), (0.9505, 1, 1.089), strict=True)  # pyright: ignore[reportArgumentType]
    )
    fx, fy, fz = (
        value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z)
    )
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def contrast(one: str, other: str) -> float:
    lights = sorted(times(XYZ, linear(each))[1] + 0.05 for each in (one, other))
    return lights[1] / lights[0]


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_series_differ(vision: str, scheme: int) -> None:
    found = variables()
    seen = [lab(times(VISION[vision], linear(found[f"series-{n}"][scheme]))) for n in range(1, 9)]
    assert min(dist(one, other) for one, other in combinations(seen, 2)) > 20


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_the_background(scheme: int) -> None:
    found = {name: pair[scheme] for name, pair in variables().items()}
    ground = found["background"]
    for name in ("text", "muted", "accent", "error", "added", "removed", "warning"):
        assert contrast(found[name], ground) >= 4.5, name
        assert contrast(found[name], found["surface"]) >= 4.5, name
    assert all(contrast(found[f"series-{n}"], ground) >= 3 for n in range(1, 9))


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_shades_are_ordered_by_contrast(scheme: int) -> None:
    found = variables()
    ground = found["background"][scheme]
    steps = [contrast(found[f"heat-{n}"][scheme], ground) for n in range(5)]
    assert steps == sorted(steps)
    assert min(after / before for before, after in pairwise(steps)) > 1.25
