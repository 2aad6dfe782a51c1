"""`nemo_gym.sandbox.utils`: the names of images."""

from collections.abc import Mapping, Sequence


def rewrite_image(
    image: str | None, rewrites: Sequence[Mapping[str, str]] | None = None
) -> str | None:
    """Return the image's name with the prefix `from` of the first matching rewrite replaced by its
    `to`. None stays None.
    """
    if image is None:
        return None
    for rewrite in rewrites or ():
        if image.startswith(rewrite["from"]):
            return rewrite["to"] + image.removeprefix(rewrite["from"])
    return image
