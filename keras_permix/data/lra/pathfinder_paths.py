"""Draw paths of dashes at random, dash by dash, for many pictures at once.

Each path bends at random, and away from the border, from itself and from the others. The first axis
of all arrays is the picture. Points are `(y, x)` in pixels. Arrays of pixels have a frame around
the picture, for points outside of it.
"""

from typing import NamedTuple

import numpy as np

# Directions to try per dash, with increasing bends; the first free one is used.
TRIES = 16
WIDER = np.linspace(1, 4, TRIES)
ROUNDS = 3  # attempts per distractor, on average


class Rules(NamedTuple):
    """Hold the sizes of a picture, in pixels and dashes."""

    image_size: int
    contour_length: int  # dashes of a long path
    distractors: int
    distractor_length: int  # dashes
    dash_length: float
    dash_thickness: float
    gaps: tuple[float, ...]  # between the dashes of a path; a picture has one of them
    dot_radius: float
    seed_distance: float  # between the starts of the two long paths
    contrast: float  # brightness of dashes; dots have 1
    bend: float  # standard deviation of the angle between successive dashes, in radians

    @property
    def clearance(self) -> float:
        """Return the smallest distance between two paths, more than the gap in a path."""
        return max(3.0, max(self.gaps) + self.dash_thickness + 1)

    @property
    def frame(self) -> int:
        """Return the width of the frame around the picture."""
        return 2 + int(self.clearance + self.dot_radius)

    @property
    def side(self) -> int:
        """Return the side of an array of pixels."""
        return self.image_size + 2 * self.frame


class Pictures(NamedTuple):
    """Hold the positions of dashes and dots.

    `starts` and `ends` are float arrays `(pictures, paths, dashes, 2)` with the two long paths
    first; missing distractors and dashes are NaN. `dots` is `(pictures, 2, 2)`. `labels` are 1 if
    the dots are the ends of one path.
    """

    starts: np.ndarray
    ends: np.ndarray
    dots: np.ndarray
    labels: np.ndarray


def draw_paths(rng: np.random.Generator, pictures: int, rules: Rules) -> Pictures:
    """Draw pictures, and keep those with room for the two long paths.

    The labels are drawn last and do not affect the paths.
    """
    gaps = rng.choice(rules.gaps, pictures)
    (first, first_zone), (second, second_zone), whole = _two_paths(rng, gaps, rules)
    whole &= _apart(first, second, rules) & _apart(second, first, rules)
    first, second, gaps = first[whole], second[whole], gaps[whole]
    taken = _border(rules) | (first_zone[whole] > 0) | (second_zone[whole] > 0)
    for tip in (first[:, 0, 0], first[:, -1, 1], second[:, 0, 0], second[:, -1, 1]):
        _stamp(taken, tip[:, None], True, rules.clearance + rules.dot_radius, rules)
    paths = [first, second, *_distractors(rng, gaps, taken, rules)]
    longest = max(rules.contour_length, rules.distractor_length)
    dashes = np.full((len(gaps), len(paths), longest, 2, 2), np.nan)
    for number, path in enumerate(paths):
        dashes[:, number, : path.shape[1]] = path
    labels = rng.integers(0, 2, len(gaps), "int32")
    far = np.where(labels[:, None] == 1, first[:, -1, 1], second[:, -1, 1])
    dots = np.stack([first[:, 0, 0], far], axis=1)
    return Pictures(dashes[..., 0, :], dashes[..., 1, :], dots, labels)


def _two_paths(rng, gaps, rules):
    """Grow the long paths in turns; return paths, zones, and whether each picture is complete."""
    count, size = len(gaps), rules.image_size
    near = rng.uniform(0, size - 1, (count, TRIES, 2))
    first = _Path(rng, count, gaps, rules)
    border = _border(rules)
    first.begin(near, border)
    angle = rng.uniform(0, 2 * np.pi, (count, TRIES))
    near = first.dashes[0][:, None, 0] + rules.seed_distance * _direction(angle)
    second = _Path(rng, count, gaps, rules)
    second.begin(near, border | (first.zone > 0))
    for _ in range(rules.contour_length - 1):
        first.extend(border | (second.zone > 0))
        second.extend(border | (first.zone > 0))
    paths = ((path.array(), path.zone) for path in (first, second))
    return *paths, first.whole & second.whole


def _distractors(rng, gaps, taken, rules):
    """Grow up to `distractors` short paths outside of the pixels `taken`."""
    count, size = len(gaps), rules.image_size
    found = np.zeros(count, int)
    shape = (rules.distractors, count, rules.distractor_length, 2, 2)
    kept = np.full(shape, np.nan)
    for _ in range(ROUNDS * rules.distractors):
        path = _Path(rng, count, gaps, rules)
        path.begin(rng.uniform(0, size - 1, (count, TRIES, 2)), taken)
        for _ in range(rules.distractor_length - 1):
            path.extend(taken)
        good = np.flatnonzero(path.whole & (found < rules.distractors))
        kept[found[good], good] = path.array()[good]
        taken[good] |= path.zone[good] > 0
        found[good] += 1
        if found.min(initial=rules.distractors) == rules.distractors:
            break
    return kept


class _Path:
    """Hold one path per picture: its dashes, and a zone that other paths must avoid.

    A pixel of `zone` holds the number of the dash that added it, counted from 1. The path itself
    may enter the zone of its last dashes.
    """

    def __init__(self, rng, count, gaps, rules):
        self.rng, self.gaps, self.rules = rng, gaps, rules
        self.zone = np.zeros((count, rules.side, rules.side), "uint8")
        self.whole = np.ones(count, bool)
        self.dashes = []
        reach = rules.clearance / (rules.dash_length + min(rules.gaps))
        self.lag = 2 + int(np.ceil(reach))

    def begin(self, near, obstacles):
        """Add the first dash at one of the points `near`, `(pictures, tries, 2)`."""
        angles = self.rng.uniform(0, 2 * np.pi, near.shape[:2])
        self._lay(near, angles, np.zeros(len(near)), obstacles)

    def extend(self, obstacles):
        """Add a dash after the last one, at a random angle."""
        old = max(0, 1 + len(self.dashes) - self.lag)
        obstacles = obstacles | ((self.zone > 0) & (self.zone <= old))
        bends = self.rng.normal(0, self.rules.bend * WIDER, (len(self.gaps), TRIES))
        tails = np.repeat(self.dashes[-1][:, None, 1], TRIES, axis=1)
        self._lay(tails, self.angles[:, None] + bends, self.gaps, obstacles)

    def array(self):
        """Return the start and the end of each dash, `(pictures, dashes, 2, 2)`."""
        return np.stack(self.dashes, axis=1)

    def _lay(self, tails, angles, gaps, obstacles):
        steps = gaps + self.rules.dash_length
        points = _along(tails, angles, steps)  # (pictures, tries, n, 2)
        found = _pixels(points, self.rules)
        every = np.arange(len(obstacles))[:, None, None]  # or one mask for all pictures
        free = ~obstacles[every, found[..., 0], found[..., 1]].any(axis=-1)
        pictures, chosen = np.arange(len(tails)), free.argmax(axis=1)
        self.whole &= free.any(axis=1)
        self.angles = angles[pictures, chosen]
        tail, way = tails[pictures, chosen], _direction(self.angles)
        ends = [tail + gaps[:, None] * way, tail + steps[:, None] * way]
        self.dashes.append(np.stack(ends, axis=1))
        line = points[pictures, chosen][:, ::-2]  # the end, and every second one before
        _stamp(self.zone, line, len(self.dashes), self.rules.clearance, self.rules)


def _direction(angles):
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1)


def _along(tails, angles, lengths):
    """Return points on lines, at most one pixel apart, on a new axis before the last."""
    count = 2 + int(np.ceil(np.max(lengths, initial=0)))
    along = lengths[:, None] * np.linspace(0, 1, count)
    return tails[..., None, :] + along[:, None, :, None] * _direction(angles)[..., None, :]


def _border(rules):
    """Return a mask of pixels that no path may cross: the frame and the outermost pixels."""
    near, margin = np.ones((1, rules.side, rules.side), bool), rules.frame + 1
    near[:, margin:-margin, margin:-margin] = False
    return near


def _pixels(points, rules):
    """Return the indices of points in arrays of pixels; points outside move to the edge."""
    near = np.clip(np.rint(points), -1, rules.image_size)
    return near.astype("int32") + rules.frame


def _stamp(array, points, value, radius, rules):
    """Write `value` around points `(pictures, n, 2)`, into pixels that are 0."""
    reach, side, found = int(radius), rules.side, _pixels(points, rules)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1)
    disc = (y * side + x)[y**2 + x**2 <= radius**2].astype("int32")
    pictures = np.arange(len(points), dtype="int32")[:, None]
    middles = (pictures * side + found[..., 0]) * side + found[..., 1]
    where, flat = middles[..., None] + disc, array.reshape(-1)
    before = flat[where]
    flat[where] = np.where(before == 0, np.asarray(value, array.dtype), before)


def _apart(path, other, rules):
    """Return whether dots at the ends of a path would keep clear of the other path."""
    tips = np.stack([path[:, 0, 0], path[:, -1, 1]], axis=1)
    points = other.reshape(len(other), -1, 2)
    distances = np.linalg.norm(tips[:, :, None] - points[:, None], axis=-1)
    near = rules.dot_radius + rules.dash_length / 2 + rules.dash_thickness + 1
    return distances.min(axis=(1, 2)) > near


def draw_pixels(pictures: Pictures, rules: Rules) -> np.ndarray:
    """Draw pictures as uint8 images `(pictures, size, size, 1)`, 0–255, on black."""
    size = rules.image_size
    canvas = np.zeros((len(pictures.labels), size, size), "float32")
    index, path, dash = np.nonzero(~np.isnan(pictures.starts[..., 0]))
    starts, ends = (dots[index, path, dash] for dots in (pictures.starts, pictures.ends))
    _lines(canvas, index, starts, ends, rules.dash_thickness / 2, rules.contrast)
    dots = pictures.dots.reshape(-1, 2)
    _lines(canvas, np.repeat(np.arange(len(canvas)), 2), dots, dots, rules.dot_radius, 1.0)
    return np.rint(255 * canvas[..., None]).astype("uint8")


def _lines(canvas, index, starts, ends, radius, brightness):
    """Draw lines with round ends and smooth edges; the brightest line is visible."""
    size, middles = canvas.shape[-1], np.rint((starts + ends) / 2)
    longest = np.linalg.norm(ends - starts, axis=-1).max(initial=0)
    reach = int(np.ceil(longest / 2 + radius + 1))
    offsets = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1).T
    pixels = middles[:, None] + offsets  # (lines, pixels, 2)
    to, way = pixels - starts[:, None], (ends - starts)[:, None]
    length = np.maximum((way**2).sum(axis=-1), 1e-9)
    share = np.clip((to * way).sum(axis=-1) / length, 0, 1)
    distances = np.linalg.norm(to - share[..., None] * way, axis=-1)
    values = brightness * np.clip(radius + 0.5 - distances, 0, 1)
    inside = ((pixels >= 0) & (pixels < size)).all(axis=-1) & (values > 0)
    row, _ = np.nonzero(inside)
    y, x = pixels[inside].astype(int).T
    np.maximum.at(canvas, (index[row], y, x), values[inside].astype("float32"))
