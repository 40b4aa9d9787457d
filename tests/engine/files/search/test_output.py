"""What programs printed, read as far as it is whole."""

from __future__ import annotations

from engine.files.search.commands import PrintedFile, read_complaints, read_files, read_names


def test_a_file_that_turned_out_to_be_no_text_has_no_lines() -> None:
    rows = b'1:x\n./a: WARNING: stopped searching binary file after match (found "\\0" byte around offset 7)\n'
    assert (PrintedFile(b"a", rows).count(), PrintedFile(b"a", rows).read().matches) == (0, ())
    rows = b"1:x\n2-y\r\n--\r\n9:WARNING: 1:\n10:\n"
    assert PrintedFile(b"a", rows).count() == 3
    assert PrintedFile(b"a", rows).read().lines == {1: "x", 2: "y", 9: "WARNING: 1:", 10: ""}


def test_what_was_cut_off_is_left_out() -> None:
    whole = b"./a\x001:x\n2:y\n\n./b\n\nc\x005:z\n"
    found = [[(file.path, file.count()) for file in read_files(whole[:end])] for end in range(len(whole) + 1)]
    assert found[-1] == [(b"a", 2), (b"b\n\nc", 1)]
    assert all(each[0] in ((b"a", 0), (b"a", 1), (b"a", 2)) for each in found if each)
    assert read_names(b"./a\0./b\nc\0./cut o") == ["a", "b\nc"]
    assert read_names(b"") == []


def test_places_that_could_not_be_read_are_told_from_everything_else() -> None:
    said = b"rg: ./a: b: Permission denied (os error 13)\n./c: Too many levels (os error 40)\nrg: other\n"
    complaints = read_complaints(said + b"\n\nConsider enabling PCRE2 with the --pcre2 flag\n")
    assert complaints.unreadable == (("a: b", "Permission denied"), ("c", "Too many levels"))
    assert complaints.other == "other"
