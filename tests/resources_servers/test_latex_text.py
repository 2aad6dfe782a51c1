r"""LaTeX that is around a short answer."""

import pytest

from palestra.resources_servers.latex_text import plain_text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (r"\textbf{(B)}\ Rome", "(B) Rome"),
        (r"\text{New }\text{York}", "New York"),
        (r"\text{a \textbf{b} c}", "a b c"),
        (r"{\rm B}", "{B}"),
        (r"\frac{1}{2}", r"\frac{1}{2}"),
        (r"\{a\}", r"\{a\}"),
        (r"50\% \$5 AT\&T a\_b C\#", "50% $5 AT&T a_b C#"),
        ("New~York ~5", "New York ~5"),
        (r"\text{open", r"\text{open"),
        (r"\textit{a}}", "a}"),
        (r"\rmfamily", r"\rmfamily"),
    ],
)
def test_what_a_reader_sees(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["\\text{", "}", "\\", "~", "\\rm ", "\\text{}"])
def test_no_text_keeps_it_busy(piece: str) -> None:
    assert isinstance(plain_text(piece * 200_000), str)
