"""Characters with a special meaning in this package."""

import re

# Sentencepiece represents a space by this character.
SPACE_MARK = "\u2581"

# A character of the scripts written without spaces: CJK punctuation, kana, ideographs, full-width forms.
WITHOUT_SPACES = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


def replace_surrogates(text: str) -> str:
    """Return the text with each surrogate pair joined to one character and each lone surrogate replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
