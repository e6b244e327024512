from __future__ import annotations

import importlib.metadata
from pathlib import Path

from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.store import CheckpointStore
from casework.runner.documents import ProblemCode, Refusal
from casework.runtime.demo.licence_cases import EXCERPT_CHARACTERS, LicenceCase, collect_cases

MIT = "MIT License\n\nPermission is hereby granted, free of charge, to any person " + "word " * 300


def install(site: Path, name: str, files: dict[str, bytes], *, version: str = "1.0") -> None:
    """Write what pip leaves behind for a distribution."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    head = (
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense: SECRET-KEY\n\nAbout.\n"
    )
    everything = {"METADATA": head.encode(), **files}
    for path, content in everything.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    listed = "".join(f"{folder.name}/{path},,\n" for path in everything)
    (folder / "RECORD").write_text(
        listed + "../../bin/LICENSE,,\nother/LICENSE,,\n", encoding="utf-8"
    )


def collected(site: Path) -> list[LicenceCase | Refusal]:
    return list(collect_cases(importlib.metadata.distributions(path=[str(site)])))


def only(site: Path) -> LicenceCase:
    (case,) = collected(site)
    assert isinstance(case, LicenceCase)
    return case


def test_a_distribution_becomes_a_case_without_its_answer(tmp_path: Path) -> None:
    """Metadata and licence files go in; the declaration is kept apart from every byte of them."""
    files = {"licenses/LICENSE": MIT.encode(), "licenses/sub/NOTICE.txt": b"n", "RECORD.txt": b"r"}
    install(tmp_path, "sample", files)
    case = only(tmp_path)
    assert "sample-1.0" == case.document.case_id
    assert ["METADATA", "licenses/LICENSE", "licenses/sub/NOTICE.txt"] == list(
        case.document.originals
    )
    assert "SECRET-KEY" == case.declared.licence
    everything = [*case.document.originals.values(), *case.document.derived.values()]
    assert not any(b"SECRET-KEY" in content for content in everything)


def test_the_same_environment_gives_the_same_cases(tmp_path: Path) -> None:
    """Sorted by name, whatever the disk lists first, and without a path of this machine."""
    for name in ("zeta", "Alpha", "beta-x"):
        install(tmp_path, name, {"LICENSE": MIT.encode()})
    one = [c.document for c in collected(tmp_path) if isinstance(c, LicenceCase)]
    two = [c.document for c in collected(tmp_path) if isinstance(c, LicenceCase)]
    assert one == two
    assert ["Alpha-1.0", "beta-x-1.0", "zeta-1.0"] == [document.case_id for document in one]
    everything = [v for d in one for v in (*d.originals.values(), *d.derived.values())]
    assert not any(str(tmp_path).encode() in content for content in everything)
    assert "Alpha 1.0" == one[0].source


def test_of_two_with_one_name_the_first_counts(tmp_path: Path) -> None:
    """As the interpreter itself would choose."""
    install(tmp_path / "a", "Same-Name", {}, version="2.0")
    install(tmp_path / "b", "same.name", {}, version="1.0")
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    found = list(collect_cases(importlib.metadata.distributions(path=paths)))
    assert ["Same-Name-2.0"] == [c.document.case_id for c in found if isinstance(c, LicenceCase)]


def test_a_distribution_installed_from_a_folder_has_a_digest_in_its_id(tmp_path: Path) -> None:
    """Its files may change while its version stays."""
    direct = {"direct_url.json": b"{}"}
    install(tmp_path, "sample", {**direct, "LICENSE": b"one"})
    first = only(tmp_path).document.case_id
    install(tmp_path, "sample", {**direct, "LICENSE": b"two"})
    second = only(tmp_path).document.case_id
    assert first.startswith("sample-1.0+")
    assert first != second


def test_the_excerpt_is_the_beginning_of_the_licence(tmp_path: Path) -> None:
    """Short enough for a tiny model; a notice is taken only where there is no licence."""
    install(tmp_path, "sample", {"ANOTICE": b"notice text", "LICENSE": b"\n\n" + MIT.encode()})
    excerpt = only(tmp_path).document.derived["licence_excerpt.txt"]
    assert MIT[:EXCERPT_CHARACTERS].encode() == excerpt


def test_a_distribution_without_a_licence_is_a_case_all_the_same(tmp_path: Path) -> None:
    """It has no excerpt, so that the question about it is empty input."""
    install(tmp_path, "sample", {})
    case = only(tmp_path)
    assert ["import.json"] == list(case.document.derived)
    assert not case.document.is_empty


def test_what_cannot_be_read_is_remarked_on(tmp_path: Path) -> None:
    """A file that is gone, too large or no text does not cost the case."""
    install(
        tmp_path,
        "sample",
        {"LICENSE": b"\0", "COPYING": b"x" * 300_000, "NOTICE": b"old \x96", "LICENSE.gone": b""},
    )
    (tmp_path / "sample-1.0.dist-info" / "LICENSE.gone").unlink()
    case = only(tmp_path)
    assert ["METADATA", "NOTICE"] == list(case.document.originals)
    assert {
        ProblemCode.BINARY: 1,
        ProblemCode.UNREADABLE: 2,
        ProblemCode.ENCODING_GUESSED: 1,
    } == {
        c: [p.code for p in case.document.problems].count(c)
        for c in (ProblemCode.BINARY, ProblemCode.UNREADABLE, ProblemCode.ENCODING_GUESSED)
    }


def test_a_distribution_without_a_name_is_refused(tmp_path: Path) -> None:
    """A torn installation is named and the others go on."""
    (tmp_path / "torn-1.0.dist-info").mkdir(parents=True)
    install(tmp_path, "whole", {})
    kinds = sorted(type(item).__name__ for item in collected(tmp_path))
    assert ["LicenceCase", "Refusal"] == kinds


def test_an_old_installation_without_a_list_of_files_is_read(tmp_path: Path) -> None:
    """Some systems install only PKG-INFO."""
    folder = tmp_path / "old-0.1.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Name: old\nVersion: 0.1\n\ntext\n", encoding="utf-8")
    (folder / "LICENSE.txt").write_text("free", encoding="utf-8")
    case = only(tmp_path)
    assert {"PKG-INFO", "LICENSE.txt"} == set(case.document.originals)


def test_this_very_environment_can_be_stored() -> None:
    """Whatever is installed here becomes packages, each with its texts where its record says."""
    store = CheckpointStore(MemoryStorage())
    found = [case for case in collect_cases() if isinstance(case, LicenceCase)]
    for case in found:
        document = case.document
        store.create(document.case_id, document.originals, derived=document.derived)
    assert "pytest" in {case.document.source.split()[0] for case in found}
    assert len(found) == sum(1 for _ in store.list())
