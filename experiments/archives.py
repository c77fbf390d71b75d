"""Pictures inside archives of the data folder."""

from __future__ import annotations

import io
import tarfile

from PIL import Image

__all__ = ["image_of"]


def image_of(tar: tarfile.TarFile, name: str) -> Image.Image:
    """Return a picture of an archive."""
    file = tar.extractfile(name)
    assert file is not None
    return Image.open(io.BytesIO(file.read()))
