import unittest

import support
from expression import LIMIT, Expression, ExpressionError

NAMES = ["m", "n", "k"]


def value(text, **values):
    return Expression(text, NAMES).evaluate({"m": 0, "n": 0, "k": 0, **values})


class Arithmetic(unittest.TestCase):
    def test_precedence_and_association(self):
        self.assertEqual(value("2 + 3 * 4"), 14)
        self.assertEqual(value("(2 + 3) * 4"), 20)
        self.assertEqual(value("20 - 5 - 3"), 12)
        self.assertEqual(value("100 / 5 / 2"), 10)

    def test_names_and_functions(self):
        self.assertEqual(value("(m - 1) * k + n", m=3, k=10, n=7), 27)
        self.assertEqual(value("ceil_div(n, 64)", n=64), 1)
        self.assertEqual(value("ceil_div(n, 64)", n=65), 2)
        self.assertEqual(value("min(m, n) + max(m, n)", m=3, n=8), 11)

    def test_saturates(self):
        self.assertEqual(value("m - n", m=1, n=2), 0)
        self.assertEqual(value("m * n * k", m=2**32, n=2**32, k=1), LIMIT)
        self.assertEqual(value(f"{LIMIT} + 1"), LIMIT)
        self.assertEqual(value("m / n", m=5), 0)
        self.assertEqual(value("ceil_div(m, n)", m=5), 0)

    def test_cpp(self):
        self.assertEqual(Expression("(m - 1) * k + 4", NAMES).cpp(), "add(mul(sub(value(a.m), 1u), value(a.k)), 4u)")


class Refusals(unittest.TestCase):
    def refused(self, text, *parts):
        with self.assertRaises(ExpressionError) as caught:
            Expression(text, NAMES)
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def test_what_is_wrong_is_named(self):
        self.refused("m * rows", "rows", "no integer argument")
        self.refused("m +", "the end")
        self.refused("(m", "the end", ")")
        self.refused("m n", "unexpected 'n'")
        self.refused("m % 2", "cannot read '% 2'")
        self.refused("min(m)", "found ')'")
        self.refused("", "empty")
        self.refused(str(2**64), "64 bits")


if __name__ == "__main__":
    unittest.main()
