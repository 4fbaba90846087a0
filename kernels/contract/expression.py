"""The contract's expressions: integers, argument names, + - * /, ceil_div, min, max.

One meaning everywhere: 64-bit unsigned arithmetic that saturates. a - b is 0 where b is larger, x / 0 and ceil_div(x, 0)
are 0, sums and products stop at 2^64 - 1.
"""

import re

LIMIT = 2**64 - 1
FUNCTIONS = {"ceil_div": 2, "min": 2, "max": 2}

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<name>[a-z_][a-z0-9_]*)|(?P<symbol>[-+*/(),]))")


class ExpressionError(ValueError):
    """An expression that cannot be read, or that names what is not there."""


class Expression:
    """A parsed expression. The tree is nested tuples: ("number", n), ("name", s), (operation, left, right)."""

    def __init__(self, text, names):
        """Parses `text`; `names` are the arguments it may use. Throws ExpressionError."""
        self.text = text
        self._tokens = _tokens(text)
        self._names = names
        self._at = 0
        self.tree = self._sum()
        if self._at != len(self._tokens):
            raise ExpressionError(f"'{text}': unexpected '{self._tokens[self._at]}'")

    def evaluate(self, values):
        """The value for a mapping of argument names to integers."""
        return _evaluate(self.tree, values)

    def cpp(self):
        """C++ in terms of the functions add, sub, mul, div, ceil_div, min, max and the variable `a`."""
        return _cpp(self.tree)

    def _peek(self):
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, expected=None):
        token = self._peek()
        if token is None or (expected is not None and token != expected):
            found = "the end" if token is None else f"'{token}'"
            raise ExpressionError(f"'{self.text}': found {found}, expected {expected or 'a value'}")
        self._at += 1
        return token

    def _sum(self):
        left = self._product()
        while self._peek() in ("+", "-"):
            operation = "add" if self._take() == "+" else "sub"
            left = (operation, left, self._product())
        return left

    def _product(self):
        left = self._value()
        while self._peek() in ("*", "/"):
            operation = "mul" if self._take() == "*" else "div"
            left = (operation, left, self._value())
        return left

    def _value(self):
        token = self._take()
        if token == "(":
            inner = self._sum()
            self._take(")")
            return inner
        if token.isdigit():
            if int(token) > LIMIT:
                raise ExpressionError(f"'{self.text}': {token} does not fit 64 bits")
            return ("number", int(token))
        if token in FUNCTIONS and self._peek() == "(":
            self._take("(")
            left = self._sum()
            self._take(",")
            right = self._sum()
            self._take(")")
            return (token, left, right)
        if token in self._names:
            return ("name", token)
        if token[0].isalpha() or token[0] == "_":
            raise ExpressionError(f"'{self.text}': '{token}' is no integer argument and no function")
        raise ExpressionError(f"'{self.text}': unexpected '{token}'")


def _tokens(text):
    tokens = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"'{text}': cannot read '{text[at:].strip()}'")
        tokens.append(match.group(match.lastgroup))
        at = match.end()
    if not tokens:
        raise ExpressionError("an expression is empty")
    return tokens


_OPERATIONS = {
    "add": lambda x, y: min(x + y, LIMIT),
    "sub": lambda x, y: max(x - y, 0),
    "mul": lambda x, y: min(x * y, LIMIT),
    "div": lambda x, y: x // y if y else 0,
    "ceil_div": lambda x, y: -(-x // y) if y else 0,
    "min": min,
    "max": max,
}


def _evaluate(node, values):
    if node[0] == "number":
        return node[1]
    if node[0] == "name":
        return max(values[node[1]], 0)
    return _OPERATIONS[node[0]](_evaluate(node[1], values), _evaluate(node[2], values))


def _cpp(node):
    if node[0] == "number":
        return f"{node[1]}u"
    if node[0] == "name":
        return f"value(a.{node[1]})"
    return f"{node[0]}({_cpp(node[1])}, {_cpp(node[2])})"
