"""Sphinx's settings for the documentation. Nothing of the site is loaded from elsewhere."""

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

project = "Palestra"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Palestra"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_static_path = ["static"]
html_js_files = ["numbers.js"]
nitpicky = True
smartquotes = False  # what stands in a document may be copied into a shell
# Blocks of commands and of shortened programs are shown as they are typed.
suppress_warnings = ["misc.highlighting_failure"]


class EnglishWithStatuses(SearchEnglish):
    """Sphinx passes over numbers. Readers look for HTTP statuses, such as 429."""

    def word_filter(self, word: str) -> bool:
        """Whether a word can be searched for."""
        is_status = len(word) == len("429") and word.isdigit()
        return is_status or super().word_filter(word)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_search_language(EnglishWithStatuses)
