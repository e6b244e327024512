"""Names of licences: SPDX ids with their families, and what else people write for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Family(StrEnum):
    """What kind of licence it is."""

    PERMISSIVE = "permissive"
    WEAK_COPYLEFT = "weak_copyleft"
    STRONG_COPYLEFT = "strong_copyleft"
    PUBLIC_DOMAIN = "public_domain"
    PROPRIETARY = "proprietary"
    UNKNOWN = "unknown"


def _of(family: Family, ids: str) -> dict[str, Family]:
    return dict.fromkeys(ids.split(), family)


FAMILIES: Final[Mapping[str, Family]] = {
    **_of(
        Family.PERMISSIVE,
        "MIT MIT-0 MIT-CMU X11 Apache-2.0 BSD-2-Clause BSD-3-Clause BSD-4-Clause 0BSD ISC PSF-2.0 "
        "Python-2.0 Zlib BSL-1.0 HPND NCSA Unicode-3.0 ZPL-2.1 Artistic-2.0 AFL-2.1 PostgreSQL "
        "WTFPL Unicode-DFS-2016",
    ),
    **_of(
        Family.WEAK_COPYLEFT,
        "MPL-1.1 MPL-2.0 LGPL-2.0-or-later LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0-only "
        "LGPL-3.0-or-later EPL-1.0 EPL-2.0 CDDL-1.0",
    ),
    **_of(
        Family.STRONG_COPYLEFT,
        "GPL-1.0-or-later GPL-2.0-only GPL-2.0-or-later GPL-3.0-only GPL-3.0-or-later "
        "AGPL-3.0-only AGPL-3.0-or-later EUPL-1.2",
    ),
    **_of(Family.PUBLIC_DOMAIN, "Unlicense CC0-1.0 CC-PDDC"),
}
"""Every SPDX id that the demonstration knows."""


def plain_name(text: str) -> str:
    """Return a name of a licence without case, punctuation and the words that say nothing."""
    words = re.findall(r"[a-z0-9.+]+", text.lower().replace("licence", "license"))
    return " ".join(word for word in words if word not in {"the", "license", "licensed", "version"})


def _names(names: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    return {plain_name(name): frozenset(ids.lower().split()) for name, ids in names.items()}


CLASSIFIERS: Final = _names(
    {
        "MIT License": "MIT",
        "MIT No Attribution License (MIT-0)": "MIT-0",
        "Apache Software License": "Apache-2.0",
        "BSD License": "BSD-2-Clause BSD-3-Clause BSD-4-Clause 0BSD",
        "Zero-Clause BSD (0BSD)": "0BSD",
        "ISC License (ISCL)": "ISC",
        "Python Software Foundation License": "PSF-2.0 Python-2.0",
        "Mozilla Public License 1.1 (MPL 1.1)": "MPL-1.1",
        "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
        "GNU General Public License (GPL)": "GPL-1.0 GPL-2.0 GPL-3.0",
        "GNU General Public License v2 (GPLv2)": "GPL-2.0",
        "GNU General Public License v2 or later (GPLv2+)": "GPL-2.0",
        "GNU General Public License v3 (GPLv3)": "GPL-3.0",
        "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0",
        "GNU Lesser General Public License v2 (LGPLv2)": "LGPL-2.0 LGPL-2.1",
        "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.0 LGPL-2.1",
        "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0",
        "GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0",
        "GNU Library or Lesser General Public License (LGPL)": "LGPL-2.0 LGPL-2.1 LGPL-3.0",
        "GNU Affero General Public License v3": "AGPL-3.0",
        "GNU Affero General Public License v3 or later (AGPLv3+)": "AGPL-3.0",
        "Eclipse Public License 1.0 (EPL-1.0)": "EPL-1.0",
        "Eclipse Public License 2.0 (EPL-2.0)": "EPL-2.0",
        "European Union Public Licence 1.2 (EUPL 1.2)": "EUPL-1.2",
        "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
        "Historical Permission Notice and Disclaimer (HPND)": "HPND MIT-CMU",
        "Academic Free License (AFL)": "AFL-2.1",
        "Artistic License": "Artistic-2.0",
        "Zope Public License": "ZPL-2.1",
        "zlib/libpng License": "Zlib",
        "The Unlicense (Unlicense)": "Unlicense",
        "CC0 1.0 Universal (CC0 1.0) Public Domain Dedication": "CC0-1.0",
        "Public Domain": "Unlicense CC0-1.0 CC-PDDC",
    }
)
"""Ids that a classifier may stand for, in the plain form of its last part."""

NAMES: Final = {
    **CLASSIFIERS,
    **_names(
        {
            "Expat": "MIT",
            "The MIT License (MIT)": "MIT",
            "MIT": "MIT",
            "Apache": "Apache-2.0",
            "Apache 2": "Apache-2.0",
            "Apache 2.0": "Apache-2.0",
            "Apache-2.0": "Apache-2.0",
            "Apache Software License 2.0": "Apache-2.0",
            "BSD": "BSD-2-Clause BSD-3-Clause BSD-4-Clause 0BSD",
            "BSD 2-Clause": "BSD-2-Clause",
            "Simplified BSD": "BSD-2-Clause",
            "BSD 3-Clause": "BSD-3-Clause",
            "3-Clause BSD": "BSD-3-Clause",
            "New BSD": "BSD-3-Clause",
            "Modified BSD": "BSD-3-Clause",
            "ISC": "ISC",
            "PSF": "PSF-2.0 Python-2.0",
            "PSFL": "PSF-2.0 Python-2.0",
            "MPL 2.0": "MPL-2.0",
            "GPL": "GPL-1.0 GPL-2.0 GPL-3.0",
            "GPLv2": "GPL-2.0",
            "GPLv2+": "GPL-2.0",
            "GPLv3": "GPL-3.0",
            "GPLv3+": "GPL-3.0",
            "LGPL": "LGPL-2.0 LGPL-2.1 LGPL-3.0",
            "LGPLv2+": "LGPL-2.0 LGPL-2.1",
            "LGPLv2.1+": "LGPL-2.1",
            "LGPLv3": "LGPL-3.0",
            "LGPLv3+": "LGPL-3.0",
            "ZPL 2.1": "ZPL-2.1",
            "CC0": "CC0-1.0",
        }
    ),
}
"""Ids that free text may stand for, in its plain form."""
