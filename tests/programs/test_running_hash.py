import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.programs.hydrator.running_hash import new_sha256, resume_sha256


@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=4))
def test_put_down_and_taken_up_it_is_the_same_hash(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    running = new_sha256()
    for start, end in pairwise(edges):
        running.update(data[start:end])
        taken_up = resume_sha256(running.state())
        if taken_up is None:
            pytest.skip("no OpenSSL library whose state can be saved is found here")
        assert taken_up.hexdigest() == hashlib.sha256(data[:end]).hexdigest()
        running = taken_up
    assert running.hexdigest() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("state", ["", "no hex", "00" * 111])
def test_a_state_that_is_none_is_not_taken_up(state: str) -> None:
    assert resume_sha256(state) is None
