"""Keep the changes that an import makes during a run, for example when the imported module registers itself."""

from __future__ import annotations

from typing import Any

from .._torch.attributes import is_a
from .holders import Attributes, ClassAttributes, Holder, Items, Variable
from .reach import EMPTY
from .snapshot import Snapshot

_Named = dict[Any, Any]


class LateImport:
    """An import that happens during a run. ``end`` finds the variables, attributes and items that changed during the
    import, and adds these changes to the snapshot's initial contents, from which every run starts.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        kinds = (Variable, Attributes, ClassAttributes, Items)
        holders = {key: holder for key, holder in snapshot.holders.items() if isinstance(holder, kinds)}
        self._before = {key: _named(holder, holder.read()) for key, holder in holders.items()}

    def end(self) -> None:
        """Add the import's changes to the snapshot, after the import has ended."""
        for key, before in self._before.items():
            holder = self._snapshot.holders[key]
            after = _named(holder, holder.read())
            changed = {
                name: after.get(name, EMPTY)
                for name in {**before, **after}
                if before.get(name, EMPTY) is not after.get(name, EMPTY)
            }
            if changed:
                self._snapshot.initial[key] = _with(holder, self._snapshot.initial[key], changed)


def _named(holder: Holder, content: Any) -> _Named:
    """Return the values in a holder's content as a dict, keyed by attribute name, dict key, list position or set
    member.
    """
    if isinstance(holder, Variable):
        return {"": content}
    if isinstance(holder, Attributes):
        return dict(content[1])
    if not isinstance(holder, Items):
        return dict(content)
    if is_a(holder.value, dict):
        return {_Name(key): value for key, value in content}
    return {_Name(item): item for item in content} if is_a(holder.value, set) else dict(enumerate(content))


class _Name:
    """A dict key or set member, compared by identity without calling its ``__eq__`` or ``__hash__``."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def __hash__(self) -> int:
        return id(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Name) and self.key is other.key


def _with(holder: Holder, content: Any, changed: _Named) -> Any:
    """Return the content with the values in ``changed`` replaced; ``EMPTY`` removes a value."""
    if isinstance(holder, Variable):
        return changed[""]
    new = {name: value for name, value in {**_named(holder, content), **changed}.items() if value is not EMPTY}
    if isinstance(holder, Attributes):
        return content[0], new
    if not isinstance(holder, Items):
        return new
    if is_a(holder.value, dict):
        return [(name.key, value) for name, value in new.items()]
    return list(new.values())
