"""Command lines as models type them, read without a shell and carried out without one.

A line is pipelines joined by ``&&``, ``||`` and ``;``; a pipeline is commands joined by ``|``; a
command is words and redirections. Quotes, backslashes and wildcards mean what POSIX says
(Shell Command Language, 2.2, 2.7, 2.13); whatever else a shell would expand or start is
refused, never passed on as if it were text. Reading takes time linear in the line.

    line     = pipeline (("&&" | "||" | ";") pipeline)* [";"]
    pipeline = command ("|" command)*
    command  = (word | redirection)+          with at least one word, the first on the list
    redirection = "<" file | [1|2] (">" | ">>") file | "2>&1" | [1]">&2"

What is read is a plan: the tool server carries it out (``harness/sandboxes/tool_server.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

MAX_COMMANDS = 32  # in one line: each is a process of its own

# A piece of a word: literal text, or a wildcard: ("*",), ("?",), ("[", negated, ((low, high), …)).
Piece = str | tuple[Any, ...]
Word = tuple[Piece, ...]


class BadLine(Exception):  # noqa: N818 - an answer for the model, not an error of ours
    """A line that cannot be carried out: says what is wrong and what would be right."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """``stream`` (0, 1, 2) goes from or to a file (``<``, ``>``, ``>>``) or where another stream
    goes at that moment (``&``, with its number as ``target``)."""

    stream: int
    kind: str
    target: str


@dataclass(frozen=True, slots=True)
class Command:
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """``when``: ``;`` always, ``&&`` after success, ``||`` after failure of what ran last."""

    when: str
    commands: tuple[Command, ...]


Plan = tuple[Pipeline, ...]


def read_line(line: str, allowed: Sequence[str]) -> Plan:
    """The plan of a line whose commands are all on the list. Raises BadLine."""
    text = line.strip(" \t\r\n")
    if not text:
        raise BadLine("the command is empty")
    if "\0" in text:
        raise BadLine("the command holds a NUL")
    pipelines: list[Pipeline] = []
    commands: list[Command] = []
    when, reader = ";", _Reader(text)
    while True:
        commands.append(_check_command(reader.command(), allowed))
        operator = reader.operator()
        if operator == "|":
            continue
        pipelines.append(Pipeline(when, tuple(commands)))
        if sum(len(each.commands) for each in pipelines) > MAX_COMMANDS:
            raise BadLine(f"more than {MAX_COMMANDS} commands in one line; use several calls")
        if not operator or (operator == ";" and reader.at_end()):
            return tuple(pipelines)
        commands, when = [], operator


def plan_json(plan: Plan) -> list[dict[str, Any]]:
    """The plan as the tool server takes it."""
    return [{"when": each.when, "commands": [_command_json(c) for c in each.commands]}
            for each in plan]  # fmt: skip


def _command_json(command: Command) -> dict[str, Any]:
    words = [word[0] if len(word) == 1 and isinstance(word[0], str) else list(word) if word else ""
             for word in command.words]  # fmt: skip
    ways = [[way.stream, way.kind, way.target] for way in command.redirections]
    return {"words": words, "ways": ways}


_NO_SHELL = "there is no shell here"
_HINTS = {
    "cd": "every command runs in the work folder: leave cd out and name paths from there",
    "python": "it is called python3 here",
    "pip": "nothing can be installed: there is no network",
    "sudo": "there are no other users here",
    "bash": f"{_NO_SHELL}: write the commands themselves, joined by |, &&, || or ;",
    "sh": f"{_NO_SHELL}: write the commands themselves, joined by |, &&, || or ;",
    "export": f"{_NO_SHELL}, so no variables; use execute_python",
}


def _check_command(command: Command, allowed: Sequence[str]) -> Command:
    if not command.words:
        raise BadLine("a redirection without a command")
    first = command.words[0]
    name = "".join(piece for piece in first if isinstance(piece, str))
    if any(not isinstance(piece, str) for piece in first):
        raise BadLine("the name of a command holds a wildcard; name the command itself")
    if name in allowed:
        return command
    if name.partition("=")[0].isidentifier() and "=" in name:
        raise BadLine(f"{_NO_SHELL}, so no variables ({name[:40]!r}); use execute_python")
    hint = _HINTS.get(name, f"these are: {', '.join(allowed)}")
    raise BadLine(f"{name[:80]!r} is not available; {hint}")


_BLANK = " \t"
_ENDS = frozenset("|&;<>() \t\r\n")
_SPECIAL_IN_QUOTES = frozenset('$`"\\')


class _Reader:
    """Goes over a line once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def at_end(self) -> bool:
        self._skip()
        return self._at >= len(self._text)

    def operator(self) -> str:
        """What stands between two commands; "" at the end."""
        if self.at_end():
            return ""
        for known in ("&&", "||", "|&", ";;", "|", ";"):
            if self._text.startswith(known, self._at):
                self._at += len(known)
                if known in ("|&", ";;"):
                    raise BadLine(f"{known!r} is not known here; use |, &&, || or ;")
                return known
        if self._peek() == "&":
            raise BadLine("nothing runs in the background (&); for both in turn use && or ;")
        self._refuse_here()

    def command(self) -> Command:
        """Words and redirections up to the next operator. Raises BadLine if there is none."""
        words: list[Word] = []
        ways: list[Redirection] = []
        while not self.at_end():
            if self._peek() in "<>" or self._is_numbered():
                ways.append(self._redirection())
            elif self._peek() in "|&;" and not self._is_both():
                break
            else:
                words.append(self._word())
        if not words and not ways:
            found = f"before {self._text[self._at : self._at + 2].strip()!r}" if (
                self._at < len(self._text)) else "at the end"  # fmt: skip
            raise BadLine(f"a command is missing {found}")
        return Command(tuple(words), tuple(ways))

    def _redirection(self) -> Redirection:
        stream = -1
        if self._peek().isdigit():
            stream = int(self._peek())
            self._at += 1
        kind = self._peek()
        self._at += 1
        follow = self._peek()
        if kind == ">" and follow == ">":
            kind, self._at = ">>", self._at + 1
        elif kind == ">" and follow == "&":
            return self._duplicate(1 if stream < 0 else stream)
        elif follow and follow in "<>&|(":
            self._refuse_redirection(kind + follow)
        stream = (0 if kind == "<" else 1) if stream < 0 else stream
        if stream > 2 or (stream == 0) != (kind == "<"):
            raise BadLine("only standard input (<), output (>) and errors (2>) can be redirected")
        return Redirection(stream, kind, self._file(kind))

    def _duplicate(self, stream: int) -> Redirection:
        """``2>&1`` and ``>&2``."""
        self._at += 1
        target = self._peek()
        after = self._text[self._at + 1 : self._at + 2]
        if stream not in (1, 2) or target not in ("1", "2") or (after and after not in "|&; \t"):
            raise BadLine("only 2>&1 and >&2 join streams; to a file: > FILE 2>&1")
        self._at += 1
        return Redirection(stream, "&", target)

    def _file(self, kind: str) -> str:
        self._skip()
        if not self._peek() or self._peek() in _ENDS:
            raise BadLine(f"a file name is missing after {kind!r}")
        word = self._word()
        if any(not isinstance(piece, str) for piece in word):
            raise BadLine(f"a wildcard after {kind!r}; name the one file")
        return "".join(str(piece) for piece in word)

    def _is_numbered(self) -> bool:
        """At a digit that belongs to a redirection, as in ``2>``."""
        follow = self._text[self._at + 1 : self._at + 2]
        return self._peek() in "0123456789" and follow != "" and follow in "<>"

    def _is_both(self) -> bool:
        if self._text.startswith("&>", self._at):
            raise BadLine("'&>' is not known here; use > FILE 2>&1")
        return False

    def _refuse_redirection(self, found: str) -> NoReturn:
        if found == "<<":
            raise BadLine("here-documents (<<) are not read; use write_file or execute_python")
        if found[1] == "(":
            raise BadLine(f"{_NO_SHELL} for {found}…); write to a file and read that")
        raise BadLine(f"{found!r} is not known here; there are <, >, >>, 2>, 2>> and 2>&1")

    def _word(self) -> Word:
        """One word. Raises BadLine, also where a shell would put something else in its place."""
        text, start = self._text, self._at
        if text[start] in "#~":
            what = "begins a comment" if text[start] == "#" else "stands for a home folder"
            raise BadLine(f"{text[start]!r} {what} in a shell; quote it if it is meant as text")
        pieces: list[Piece] = []
        plain: list[str] = []
        while self._at < len(text) and (letter := text[self._at]) not in _ENDS:
            if letter in "*?[" and (wildcard := self._wildcard()) is not None:
                if plain:
                    pieces.append("".join(plain))
                    plain = []
                pieces.append(wildcard)
            else:
                plain.append(self._literal(letter))
        if self._at == start:
            self._refuse_here()
        if plain or not pieces:
            pieces.append("".join(plain))
        return tuple(pieces)

    def _literal(self, letter: str) -> str:
        """The next bit of text, quoted or not."""
        if letter == "'":
            return self._single_quoted()
        if letter == '"':
            return self._double_quoted()
        if letter == "\\":
            return self._escaped()
        if letter in "$`":
            self._check_dollar(quoted=False)
        if not letter.isprintable() and ord(letter) < 256:
            raise BadLine(f"an unquoted control character, {letter!r}")
        self._at += 1
        return letter

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise BadLine("a quote (') is not closed")
        found = self._text[self._at + 1 : end]
        self._at = end + 1
        return found

    def _double_quoted(self) -> str:
        text = self._text
        found: list[str] = []
        self._at += 1
        while self._at < len(text):
            letter = text[self._at]
            if letter == '"':
                self._at += 1
                return "".join(found)
            if letter in "$`":
                self._check_dollar(quoted=True)
            follow = text[self._at + 1 : self._at + 2]
            if letter == "\\" and follow == "\n":
                self._at += 2  # a line that goes on
                continue
            if letter == "\\" and follow and follow in _SPECIAL_IN_QUOTES:
                self._at += 1
                letter = follow
            found.append(letter)
            self._at += 1
        raise BadLine('a quote (") is not closed')

    def _escaped(self) -> str:
        follow = self._text[self._at + 1 : self._at + 2]
        if not follow:
            raise BadLine("a backslash at the end escapes nothing; leave it out")
        if follow in "\r\n":
            raise BadLine("a command is one line; join the lines, without backslashes")
        self._at += 2
        return follow

    def _check_dollar(self, quoted: bool) -> None:
        """Refuse what a shell would put something else in the place of."""
        letter = self._text[self._at]
        follow = self._text[self._at + 1 : self._at + 2]
        if letter == "`" or follow == "(":
            raise BadLine("no command is put into another (`…`, $(…)); use a pipe, a file, or "
                          "execute_python; in single quotes it is text")  # fmt: skip
        starts = follow.isascii() and (follow.isalnum() or (follow and follow in "_{@*#?$!-"))
        if starts or (not quoted and follow and follow in "'\""):
            raise BadLine(f"there are no variables ({self._text[self._at : self._at + 12]!r}); "
                          "in single quotes it is text")  # fmt: skip

    def _wildcard(self) -> tuple[Any, ...] | None:
        """The wildcard here, which is then passed; None for a ``[`` that is a letter."""
        letter = self._text[self._at]
        if letter != "[":
            self._at += 1
            return (letter,)
        end = _class_end(self._text, self._at)
        if end is None:
            return None
        inner = self._text[self._at + 1 : end]
        self._at = end + 1
        negated = inner[0] in "!^"
        return ("[", negated, _ranges(inner[1:] if negated else inner))

    def _refuse_here(self) -> NoReturn:
        letter = self._peek()
        if letter in "\r\n":
            raise BadLine("a command is one line; join commands with && or ;")
        if letter in "()":
            raise BadLine(f"{_NO_SHELL} for {letter!r}; quote it if it is meant as text")
        raise BadLine(f"{letter!r} is not expected here")

    def _skip(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _BLANK:
            self._at += 1

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]


_MAX_CLASS = 64  # characters between brackets: more is not looked for, which keeps time linear
_NOT_IN_CLASS = frozenset("/ \t\r\n'\"\\$`|&;<>()")


def _class_end(text: str, start: int) -> int | None:
    """Where the bracket that opens at ``start`` closes; None where it is only a letter."""
    at = start + 1
    if text[at : at + 1] in ("!", "^"):
        at += 1
    first = at
    while at < len(text) and at - first <= _MAX_CLASS and text[at] not in _NOT_IN_CLASS:
        if text[at] == "]" and at > first:
            return at
        if text[at] == "[" and text[at + 1 : at + 2] in (":", ".", "="):
            raise BadLine(f"{text[at : at + 2]!r} in brackets is not known here; name the letters")
        at += 1
    quoted = text[at : at + 1]
    if quoted and quoted in "'\"\\" and "]" in text[at : at + _MAX_CLASS]:
        raise BadLine("quotes within [ ] are not read; name the files one by one")
    return None


def _ranges(inner: str) -> tuple[tuple[str, str], ...]:
    """The letters of a bracket, as first and last of each range."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(inner):
        if inner[at + 1 : at + 2] == "-" and at + 2 < len(inner):
            found.append((inner[at], inner[at + 2]))
            at += 3
        else:
            found.append((inner[at], inner[at]))
            at += 1
    return tuple(found)
