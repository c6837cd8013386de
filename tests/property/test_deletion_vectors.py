"""Deletion vectors in the bytes of Iceberg's specification."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tailrace_sink.iceberg.files.deletion_vectors import blob_of, positions_in

POSITIONS = st.sets(st.integers(0, 70_000) | st.integers(0, (1 << 63) - 1))


@given(positions=POSITIONS)
def test_a_vector_has_the_positions_that_were_put_in_it(positions: set[int]):
    blob = blob_of(BitMap64(positions))
    assert set(positions_in(blob)) == positions
    length, body, check = blob[:4], blob[4:-4], blob[-4:]
    assert int.from_bytes(length, "big") == len(body)
    assert body[:4].hex() == "d1d33964"
    assert int.from_bytes(check, "big") == zlib.crc32(body)


@given(positions=POSITIONS, data=st.data())
def test_a_damaged_vector_is_refused(positions: set[int], data: st.DataObject):
    blob = bytearray(blob_of(BitMap64(positions)))
    blob[data.draw(st.integers(0, len(blob) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="damaged"):
        positions_in(bytes(blob))


def test_bytes_that_are_no_vector_are_refused():
    for blob in (b"", b"short", bytes(40)):
        with pytest.raises(ValueError, match="damaged"):
            positions_in(blob)
