"""The forms of the records, as the browser's check reads them: what the registry's classes say, as
JSON Schema. `python -m tests.study.extras.site.forms` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from registry.draws.reveal import RevealedSeeds
from registry.ledger.chain import Entry
from registry.ledger.records import KINDS
from tests.conftest import ROOT

PATH = ROOT / "study/extras/site/browser/forms.json"


def forms_text() -> str:
    """Return the forms by the names of their kinds, as the file has them."""
    classes: dict[str, Any] = {**KINDS, "entry": Entry, "reveal": RevealedSeeds}
    forms = {name: _bare(TypeAdapter(cls).json_schema(), True) for name, cls in classes.items()}
    return json.dumps(forms, indent=1) + "\n"


def _bare(schema: Any, titled: bool = False) -> Any:
    """Drop the words of a schema, and titles of all but records."""
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: {key: _bare(each) for key, each in value.items()}
        if name in ("properties", "$defs")
        else _bare(value)
        for name, value in schema.items()
        if name != "description" and (name != "title" or titled)
    }
    return kept


if __name__ == "__main__":
    Path(PATH).write_text(forms_text(), encoding="utf-8")
