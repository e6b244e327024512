from __future__ import annotations

import pytest

from casework.runtime.demo.declared_licence import DeclaredLicence, cut_metadata

METADATA = """\
Metadata-Version: 2.4
Name: sample
Version: 1.0
License: Copyright (c) somebody
       \x20
        Permission is granted
\tto everybody.
license-expression: MIT
Classifier: Programming Language :: Python
Classifier: License :: OSI Approved :: MIT License
License-File: LICENSE
Classifier:  License::Public Domain
Summary: about License: MIT

License: this line is the description's own
Classifier: License :: and stays
"""

REST = """\
Metadata-Version: 2.4
Name: sample
Version: 1.0
Classifier: Programming Language :: Python
License-File: LICENSE
Summary: about License: MIT

License: this line is the description's own
Classifier: License :: and stays
"""


def test_every_header_that_declares_the_licence_is_cut_out() -> None:
    """With the lines that continue it; the rest stays as it was."""
    cut = cut_metadata(METADATA)
    assert REST == cut.rest
    assert ("sample", "1.0") == (cut.name, cut.version)
    assert "MIT" == cut.declared.expression
    assert cut.declared.licence is not None
    assert cut.declared.licence.startswith("Copyright (c) somebody\n")
    assert cut.declared.licence.endswith("\tto everybody.")
    assert (
        "License :: OSI Approved :: MIT License",
        "License::Public Domain",
    ) == cut.declared.classifiers


def test_windows_line_ends_stay() -> None:
    """The rest is cut, not rewritten."""
    cut = cut_metadata("Name: x\r\nLicense: MIT\r\nVersion: 1\r\n\r\nBody\r\n")
    assert "Name: x\r\nVersion: 1\r\n\r\nBody\r\n" == cut.rest


@pytest.mark.parametrize("text", ["", "\n", "no header\nat all\n", "License: MIT", ": x\n"])
def test_odd_metadata_declares_what_it_can(text: str) -> None:
    """Nothing raises over a file that is no metadata."""
    cut = cut_metadata(text)
    assert (None, None) == (cut.name, cut.version)
    assert ("MIT" if "License" in text else None) == cut.declared.licence


def test_an_empty_licence_is_none() -> None:
    """Unknown is null."""
    assert DeclaredLicence() == cut_metadata("License: \nLicense-Expression:\n").declared


def test_a_declaration_reads_back_as_it_was_written() -> None:
    """The answer key keeps all three places."""
    declared = DeclaredLicence("MIT", "text", ("License :: x",))
    assert declared == DeclaredLicence.from_json(declared.to_json())


@pytest.mark.parametrize("value", [None, [], {"expression": 1, "classifiers": "x"}, {}])
def test_an_odd_declaration_counts_as_none(value: object) -> None:
    """A damaged answer key judges nobody."""
    assert DeclaredLicence() == DeclaredLicence.from_json(value)  # type: ignore[arg-type]
