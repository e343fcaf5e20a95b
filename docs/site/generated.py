"""Parts of the reference that are made from the code and from data; the site's hooks call them."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def words_to_avoid() -> str:
    """The table of words to avoid, from the file that the vocabulary test reads."""
    entries = tomllib.loads((ROOT / "docs" / "glossary.toml").read_text())["avoid"]
    rows = ["| avoid | use |", "|---|---|"]
    for entry in entries:
        words = dict.fromkeys(
            [*entry.get("text", []), *(word.replace("_", " ") for word in entry.get("names", []))]
        )
        rows.append(f"| {', '.join(words)} | {entry['use']} |")
    return "\n".join(rows)
