"""The page on specs is true to the model."""

import re
from pathlib import Path

from tokenweir.spec import read_spec
from tokenweir.spec.reference import written_into

PAGE = (Path(__file__).parents[3] / "docs" / "spec.md").read_text(encoding="utf-8")


def test_the_page_lists_the_fields_of_the_model() -> None:
    assert written_into(PAGE) == PAGE, "run: python -m tokenweir.spec.reference docs/spec.md"


def test_the_specs_on_the_page_are_good() -> None:
    found = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found
    for text in found:
        read_spec(text, "docs/spec.md")
