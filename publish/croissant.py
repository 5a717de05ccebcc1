"""``croissant.json``: a release described in Croissant 1.0, for catalogues of data sets.

The file sets are globs over the folder that the file lies in, so that the same bytes describe any
copy. Of each row the single values are fields; input files lie beside them in the same row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from publish.dataset_card import ReleaseText
from publish.row_schema import FEATURES

CROISSANT = "croissant.json"
_TYPES = {"string": "sc:Text", "int64": "sc:Integer"}
# fmt: off
_TERMS = (
    "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty",
    "fileSet", "format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField",
    "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate",
    "separator", "source", "subField", "transform",
)
# fmt: on
# As the specification gives it: https://docs.mlcommons.org/croissant/docs/croissant-spec.html
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    **{name: f"cr:{name}" for name in _TERMS},
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
}


def croissant(text: ReleaseText, splits: Sequence[str]) -> dict[str, Any]:
    """Return the description of a release with these splits, each of which is a version."""
    described = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": text.study,
        "description": f"{text.title}: public arm of the study {text.study}.",
        "license": f"https://spdx.org/licenses/{text.licence}",
        "url": text.url,
        "version": f"1.{len(splits) - 1}.0",
        "datePublished": text.year,
        "creator": [{"@type": "sc:Person", "name": name} for name in text.authors],
        "citeAs": f"https://doi.org/{text.doi}" if text.doi else "",
        "distribution": [_files(split) for split in splits],
        "recordSet": [_records(split) for split in splits],
    }
    return {name: value for name, value in described.items() if value}


def _files(split: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": f"files-{split}",
        "name": f"files-{split}",
        "encodingFormat": "application/x-parquet",
        "includes": f"data/*/{split}-*.parquet",
    }


def _records(split: str) -> dict[str, Any]:
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{split}/{name}",
            "name": name,
            "dataType": _TYPES[feature["dtype"]],
            "source": {"fileSet": {"@id": f"files-{split}"}, "extract": {"column": name}},
        }
        for name, feature in FEATURES.items()
        if feature["_type"] == "Value"
    ]
    return {"@type": "cr:RecordSet", "@id": split, "name": split, "field": fields}
