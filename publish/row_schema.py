"""The columns of a released row: the schema of a release's Parquet files."""

from __future__ import annotations

from typing import Any

from registry.canonical import canonical_bytes

_TEXT = {"dtype": "string", "_type": "Value"}
_BYTES = {"dtype": "binary", "_type": "Value"}
_FILE = {"path": _TEXT, "media_type": _TEXT, "sha256": _TEXT, "text": _TEXT, "data": _BYTES}
# The columns as Hugging Face's ``datasets`` notes them in a Parquet file's metadata.
FEATURES: dict[str, Any] = {
    **dict.fromkeys(("task", "version", "difficulty", "title", "marker"), _TEXT),
    **dict.fromkeys(("seed", "instance"), _TEXT),
    "leaf": {"dtype": "int64", "_type": "Value"},
    **dict.fromkeys(("nonce", "prompt", "answer_schema"), _TEXT),
    "input_files": {"feature": _FILE, "_type": "List"},
    "images": {"feature": {"_type": "Image"}, "_type": "List"},
    **dict.fromkeys(("truth", "rubric", "answer"), _TEXT),
    **dict.fromkeys(("input", "input_image", "target"), _TEXT),  # of ``eval.yaml``
}


def row_schema() -> Any:
    """The Arrow schema of a release, with the metadata that ``datasets`` reads."""
    import pyarrow as pa

    metadata = canonical_bytes({"info": {"features": FEATURES}})
    fields = [(name, _arrow_type(feature)) for name, feature in FEATURES.items()]
    return pa.schema(fields, metadata={b"huggingface": metadata})


def _arrow_type(feature: dict[str, Any]) -> Any:
    import pyarrow as pa

    match feature.get("_type"):
        case "Value":
            return pa.type_for_alias(feature["dtype"])
        case "List":
            return pa.list_(_arrow_type(feature["feature"]))
        case "Image":
            return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.struct([(name, _arrow_type(inner)) for name, inner in feature.items()])
