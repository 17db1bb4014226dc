"""Rewrites an expression so that + - * / % and computed indexes call the functions of arithmetic.py.

In the second form it gives, texts that come from names and are put into a path are percent-encoded as well.
"""

import re
from typing import NamedTuple

MAX_LENGTH = 4_000
MAX_NESTING = 40


class Rewritten(NamedTuple):
    text: str  # for a value
    part: str  # for a path: literals as they stand, everything else encoded
    bound: frozenset[str]  # names that macros such as map(x, …) bind


def rewrite(source: str) -> Rewritten:
    """Both forms of an expression that CEL's own parser has accepted. Raises ValueError for what is not supported."""
    rewriter = _Rewriter(source)
    whole = rewriter.sequence(closer="")
    return Rewritten(whole.text, whole.part, frozenset(rewriter.bound))


def check_size(source: str) -> None:
    """Keeps the native parser, which recurses, away from texts made to exhaust it. Raises ValueError."""
    if len(source) > MAX_LENGTH:
        raise ValueError(f"longer than {MAX_LENGTH} characters")
    depth = deepest = 0
    for character in source:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        raise ValueError(f"nested deeper than {MAX_NESTING} brackets")


_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      | (?P<literal>
            [bB]?[rR][bB]?(?:'{3}[\s\S]*?'{3}|"{3}[\s\S]*?"{3}|'[^'\n]*'|"[^"\n]*")
          | [bB]?(?:'{3}(?:\\[\s\S]|[^\\])*?'{3}|"{3}(?:\\[\s\S]|[^\\])*?"{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
          | 0[xX][0-9a-fA-F]+[uU]?
          | (?:\d+\.\d+|\d+|\.\d+)(?:[eE][+-]?\d+)?[uU]?
          | (?:true|false|null)\b
        )
      | (?P<relation><=|>=|==|!=|&&|\|\||<|>|in\b)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<mark>[-+*/%!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_MACROS = frozenset({"map", "filter", "all", "exists", "exists_one", "existsOne"})
_CALLS = {"+": "json_add", "-": "json_subtract", "*": "json_multiply", "/": "json_divide", "%": "json_remainder"}
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


class _Node(NamedTuple):
    text: str
    part: str


class _Rewriter:
    """Only sums and products need their structure; all that binds weaker is copied between them."""

    def __init__(self, source: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.bound: set[str] = set()
        self.at = 0
        position = 0
        while position < len(source):
            match = _TOKEN.match(source, position)
            if match is None or match.lastgroup is None:
                raise ValueError(f"unsupported character {source[position]!r} at column {position + 1}")
            if match.lastgroup != "space":
                self.tokens.append((match.lastgroup, match.group()))
            position = match.end()
        self.tokens.append(("end", ""))

    @property
    def next(self) -> str:
        return self.tokens[self.at][1]

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def sequence(self, closer: str) -> _Node:
        """Sums up to the closing bracket. Conditions, comparisons and keys are not the value: no part form."""
        text: list[str] = []
        part: list[str] = []
        start = open_choices = 0
        compared = False
        while self.next != closer:
            kind, sign = self.tokens[self.at]
            if kind != "relation" and sign not in ("?", ":", ","):
                node = self.sum()
                text.append(node.text)
                part.append(node.part)
                continue
            text.append(self.take())
            part.append(sign)
            compared = compared or kind == "relation"
            if kind != "relation":
                is_key = sign == ":" and not open_choices
                open_choices += (sign == "?") - (sign == ":" and not is_key)
                if sign == "?" or is_key or compared:
                    part[start:] = text[start:]
                start, compared = len(text), False
        if compared:
            part[start:] = text[start:]
        self.take()
        return _Node(" ".join(text), " ".join(part))

    def sum(self) -> _Node:
        node = self.product()
        while self.next in ("+", "-"):
            call = _CALLS[self.take()]
            right = self.product()
            node = _Node(f"{call}({node.text}, {right.text})", f"{call}({node.part}, {right.part})")
        return node

    def product(self) -> _Node:
        node = self.signed()
        while self.next in ("*", "/", "%"):
            call = _CALLS[self.take()]
            text = f"{call}({node.text}, {self.signed().text})"
            node = _Node(text, text)
        return node

    def signed(self) -> _Node:
        sign = ""
        while self.next in ("!", "-"):
            sign += self.take()
        node = self.member()
        return _Node(sign + node.text, sign + node.part)

    def member(self) -> _Node:
        kind, first = self.tokens[self.at]
        self.take()
        if kind == "literal":
            node = _Node(first, first)
        elif first in _CLOSERS:
            inner = self.sequence(_CLOSERS[first])
            node = _Node(f"{first}{inner.text}{_CLOSERS[first]}", f"{first}{inner.part}{_CLOSERS[first]}")
        elif kind == "name":
            node = _Node(first, "")
        else:
            raise ValueError(f"unsupported syntax near {first!r}" if first else "unexpected end")
        tail, called = self.tail()
        text = node.text + tail
        keeps_parts = node.part and not called and (not tail or first in ("[", "{"))
        return _Node(text, node.part + tail if keeps_parts else f"path_part({text})")

    def tail(self) -> tuple[str, bool]:
        """What follows a value: .name, (arguments), [index]; and whether anything was called."""
        text, called = "", False
        while self.next in (".", "(", "["):
            mark = self.take()
            if mark == ".":
                name = self.take()
                text += f".{name}"
                if name in _MACROS and self.next == "(":
                    self.bound.add(self.tokens[self.at + 1][1])
            elif mark == "(":
                called = True
                text += f"({self.sequence(')').text})"
            else:
                literal = self.tokens[self.at][0] == "literal" and self.tokens[self.at + 1][1] == "]"
                inner = self.sequence("]").text
                text += f"[{inner}]" if literal else f"[json_index({inner})]"
        return text, called
