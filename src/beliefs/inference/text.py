"""Methods as text: ``"bp(damping=0.2)"`` in Python and in the shell alike; ``repr(method)`` gives it back.

Whatever else is a frozen dataclass of options with a name (optimisers, schedules) is written the same way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import fields
from keyword import iskeyword
from typing import Any, TypeVar

from beliefs.elsewhere import meant_option, meant_word
from beliefs.errors import ModelError
from beliefs.inference.base import Method

__all__ = ["known_methods", "named_method", "parse", "parse_method", "parse_named", "use_methods"]

T = TypeVar("T")
_UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)  # the last two: nested too deeply
_SHOWN = 60  # characters of a wrong text that are shown

_known: Callable[[], Sequence[type[Method]]] = tuple


def parse(text: str, known: Sequence[type[T]], what: str) -> T:
    """Return the object written as ``name`` or ``name(field=literal, ...)``; see :func:`parse_named`."""
    cls, values = parse_named(text, known, what)
    return cls(**values)


def use_methods(known: Callable[[], Sequence[type[Method]]]) -> None:
    """Let texts mean these methods; the registry says so, which stands above all that ask for methods by name."""
    global _known
    _known = known


def known_methods() -> Sequence[type[Method]]:
    """Return the rows of the registry."""
    return _known()


def parse_method(text: str, known: Sequence[type[Method]] | None = None) -> Method:
    """Return the method written as ``name`` or ``name(field=literal, ...)``, by default one of the registry.

    ``auto`` is no method but the wish that one be chosen. Everything else is as in :func:`parse_named`.
    """
    cls, values = parse_named(text, _known() if known is None else known, "method", also=("auto",))
    return cls(**values)


def named_method(method: Method | str, what: str = "method") -> Method:
    """Return the method that a caller means by itself or by its text."""
    if not isinstance(method, (Method, str)):
        raise ModelError(f"{what} must be a Method or its text, found {_kind(method)}")
    return parse_method(method) if isinstance(method, str) else method


def parse_named(
    text: str, known: Sequence[type[T]], what: str, *, also: Sequence[str] = (), given: Sequence[str] = ()
) -> tuple[type[T], dict[str, Any]]:
    """Return the class written as ``name`` or ``name(field=literal, ...)``, and the values of its fields.

    Literals are int, float, bool, None or a word. Unknown names and fields list the known ones (``also``: names that
    are listed and that others understand; ``given``: fields that are not for the text). Whatever is wrong with the
    text is a ModelError.
    """
    word = text.strip()
    if word.isascii() and word.isidentifier() and not iskeyword(word):  # most texts are a name, and parsing takes long
        if word in also:
            raise ModelError(f"here a {what} must be named, and {word} is none (known: {_listed(_names_of(known))})")
        return _class_of(word, known, what, also), {}
    try:
        node = ast.parse(word, mode="eval").body
    except _UNREADABLE:
        node = ast.Constant(None)
    if isinstance(node, ast.Name):
        return _class_of(node.id, known, what, also), {}
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        article = "an" if what[0] in "aeiou" else "a"
        hint = meant_word(word, _names_of(known))
        raise ModelError(f"{article} {what} is written name(field=value, ...), found {_short(text)}{hint}")
    cls: Any = _class_of(node.func.id, known, what, also)
    options = [f.name for f in fields(cls) if f.name not in given]
    if node.args:
        raise ModelError(f"options of {cls.name} are written field=value; its fields are {_listed(options)}")
    values: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg not in options:
            hint = meant_option(keyword.arg or "", options)
            raise ModelError(f"{cls.name} has no option {keyword.arg!r}{hint or '; it has ' + _listed(options)}")
        if keyword.arg in values:
            raise ModelError(f"option {keyword.arg!r} of {cls.name} is given twice")
        values[keyword.arg] = _literal(keyword.value, keyword.arg)
    return cls, values


def _kind(value: object) -> str:
    """Return the name of a value's type, and what its author may have meant."""
    some = "; marginals of some variables alone: targets=[...], their best states: marginal_map"
    meant = {"dict": "; write evidence={...}", "list": some}
    if isinstance(value, type):
        return f"the class {value.__name__}; write {value.__name__}()"
    kind = type(value).__name__
    return f"{kind}{meant.get(kind, '')}"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _names_of(known: Sequence[Any]) -> list[str]:
    return [cls.name for cls in known]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"


def _class_of(name: str, known: Sequence[Any], what: str, also: Sequence[str]) -> Any:
    if name in also:
        raise ModelError(f"{name} has no options and is written without parentheses")
    for cls in known:
        if cls.name == name:
            return cls
    names = _names_of(known)
    raise ModelError(f"no {what} {_short(name)}{meant_word(name, names)} (known: {', '.join([*also, *names])})")


def _literal(node: ast.expr, option: str) -> Any:
    if isinstance(node, ast.Name):
        return node.id
    try:
        value = ast.literal_eval(node)
    except _UNREADABLE:
        value = ...
    if value is None or isinstance(value, (int, float, bool, str)):
        return value
    raise ModelError(f"option {option!r} must be a number, True, False, None or a word")
