"""Texts that cost readers of source most: lexers, parsers, comparisons and tables of lines. Nobody writes them."""

SIZE = 400_000


def _filled(unit: str) -> str:
    return (unit * (SIZE // len(unit.encode()) + 1))[: SIZE * len(unit) // len(unit.encode())]


TEXTS = {
    "empty lines after a word": "a" + "\n" * SIZE,
    "empty lines and blanks": _filled("\n \n\t\n"),
    "blanks after a word": "a" + " " * SIZE,
    "words and tabs": _filled("a \t"),
    "one long word": "a" * SIZE,
    "one long number": "1" * SIZE,
    "two lines that alternate": _filled("0\n1\n"),
    "many short functions": _filled("def f():pass\n"),
    "many imports": _filled("import a\n"),
    "deep brackets": "(" * SIZE,
    "deep calls": _filled("f("),
    "deep indentation": "".join(" " * depth + "if 1:\n" for depth in range(800)),
    "a long sum": "a" + _filled("+a"),
    "a long chain of attributes": "a" + _filled(".a"),
    "a long dictionary": "x={" + _filled("1:1,"),
    "a string that does not end": '"' + _filled('\\"'),
    "beginnings of strings": _filled('R"('),
    "beginnings of comments": _filled("/*"),
    "beginnings of templates": _filled("a<"),
    "a directive that goes on": "#define a " + _filled("\\\n"),
    "characters that nobody sees": _filled("\u202e"),
    "accents on one letter": "a" + _filled("\u0301"),
}
