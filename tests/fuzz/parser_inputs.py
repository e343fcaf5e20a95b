"""Random inputs for parsers: valid text that was damaged, words of the grammar, and noise."""

import random
from collections.abc import Iterator, Sequence


def damaged(rng: random.Random, text: bytes, words: Sequence[bytes]) -> bytes:
    """Text with a few random deletions, repetitions, insertions and changed bytes."""
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(text) + 1)
        stop = min(len(text), at + rng.randrange(1, 12))
        match rng.randrange(5):
            case 0:
                text = text[:at] + text[stop:]
            case 1:
                text = text[:stop] + text[at:stop] * rng.randrange(1, 5) + text[stop:]
            case 2:
                text = text[:at] + rng.choice(words) + text[at:]
            case 3:
                text = text[:at] + rng.randbytes(rng.randrange(1, 5)) + text[stop:]
            case _:
                text = text[:at] + bytes([rng.randrange(256)]) * rng.randrange(1, 40) + text[at:]
    return text


def inputs(
    seed: int, count: int, valid: Sequence[bytes], words: Sequence[bytes]
) -> Iterator[bytes]:
    """Yield ``count`` inputs; equal arguments yield equal inputs.

    Parameters
    ----------
    seed, count
        Of the random numbers, and how many inputs.
    valid
        What the parser accepts.
    words
        What its grammar consists of.
    """
    rng = random.Random(f"parsers {seed}")
    for _ in range(count):
        kind = rng.randrange(10)
        if kind < 6:
            yield damaged(rng, b"".join(rng.choices(valid, k=rng.randrange(1, 3))), words)
        elif kind < 9:
            yield b"".join(rng.choices(words, k=rng.randrange(1, 20)))
        else:
            yield rng.randbytes(rng.randrange(200))


def pieces(rng: random.Random, data: bytes) -> list[bytes]:
    """The data in random pieces."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(5)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
