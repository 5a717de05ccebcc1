"""Google Cloud: the address of Vertex AI, and credentials."""

from __future__ import annotations

from typing import Any

from harness.errors import ModelUnavailable

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


def cloud_credentials(token: str) -> Any:
    """Return the credentials of an access token; for "" those that Google's library finds (a file
    named by GOOGLE_APPLICATION_CREDENTIALS, ``gcloud auth application-default login``, the
    machine's own). Raises ModelUnavailable if it finds none."""
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError
    from google.oauth2.credentials import Credentials

    if token:
        return Credentials(token)  # type: ignore[no-untyped-call]  # the library has no types
    try:
        found, _ = google.auth.default(scopes=_SCOPES)
    except DefaultCredentialsError:
        raise ModelUnavailable(
            "no credentials of Google Cloud: run `gcloud auth application-default login`, or name "
            "a key file in GOOGLE_APPLICATION_CREDENTIALS"
        ) from None
    return found
