"""Article: what a value is, in words of a message."""

from __future__ import annotations

__all__ = ["kind_of", "with_article"]

_VOWEL_LETTERS = "AEFHILMNORSX"
_CONSONANT_SOUNDS = ("eu", "one", "uni", "us", "ut", "uu")


def kind_of(value: object) -> str:
    """The type of *value* with its article, such as "an int"; "None" and "bytes" have none."""
    if value is None:
        return "None"
    return "bytes" if type(value) is bytes else with_article(type(value).__name__)


def with_article(word: str) -> str:
    """*word* after "a" or "an", as it is said."""
    bare = word.lstrip("_")
    if bare[:1].isupper() and not bare[1:2].islower():
        # Said by its letters: an HTTPModel, an H.
        vowel = bare[0] in _VOWEL_LETTERS
    else:
        said = bare.lower()
        vowel = said.startswith(tuple("aeiou")) and not said.startswith(_CONSONANT_SOUNDS)
    return f"{'an' if vowel else 'a'} {word}"
