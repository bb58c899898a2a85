"""A small parallel corpus: the numbers 0 to 9,999 in English and German words."""

from dragoman.data.readers import Pair

ENGLISH_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
ENGLISH_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
GERMAN_ONES = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn"
).split()
GERMAN_TENS = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def english(number: int) -> str:
    """Return a number in English words: 1,205 is "one thousand two hundred and five"."""
    if number < 20:
        return ENGLISH_ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return ENGLISH_TENS[tens] + (f"-{ENGLISH_ONES[ones]}" if ones else "")
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{ENGLISH_ONES[hundreds]} hundred" + (f" and {english(rest)}" if rest else "")
    thousands, rest = divmod(number, 1000)
    joint = " and " if rest < 100 else " "
    return f"{ENGLISH_ONES[thousands]} thousand" + (f"{joint}{english(rest)}" if rest else "")


def german(number: int) -> str:
    """Return a number in German words: 42 is "zweiundvierzig".

    It is one word with ones before tens; "eins" becomes "ein" unless it is at the end.
    """
    if number < 20:
        return GERMAN_ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return (f"{_ein(ones)}und" if ones else "") + GERMAN_TENS[tens]
    for size, name in ((1000, "tausend"), (100, "hundert")):
        if number >= size:
            count, rest = divmod(number, size)
            return f"{_ein(count)}{name}" + (german(rest) if rest else "")
    raise AssertionError(number)


def _ein(number: int) -> str:
    return "ein" if number == 1 else GERMAN_ONES[number]


def split_numbers() -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Return the pairs for (training, validation, test), which are disjoint."""
    # 7919 and 10,000 are coprime, so this is a permutation of all numbers, deterministic and without a simple pattern.
    pairs = [Pair(english(number), german(number)) for number in (i * 7919 % 10_000 for i in range(10_000))]
    return pairs[2200:], pairs[2000:2200], pairs[:2000]
