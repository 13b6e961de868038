import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.model.persistent import PersistentMap

keys = st.text("abcdefgh", max_size=2)


@given(st.lists(st.tuples(st.booleans(), keys, st.integers())))
def test_against_a_dict_and_no_version_ever_changes(script: list[tuple[bool, str, int]]) -> None:
    versions: list[tuple[PersistentMap[int], dict[str, int]]] = [(PersistentMap(), {})]
    for sets, key, value in script:
        present, model = versions[-1]
        if sets:
            versions.append((present.set(key, value), {**model, key: value}))
        elif key in model:
            versions.append((present.remove(key), {k: v for k, v in model.items() if k != key}))
        else:
            with pytest.raises(KeyError):
                present.remove(key)
    for present, model in versions:
        assert {key: present.get(key) for key in model} == model
        assert sorted(present.values()) == sorted(model.values())
        assert len(present) == len(model)
        assert all((key in present) == (key in model) for key in "abcdefgh")


@given(st.dictionaries(keys, st.integers()))
def test_one_that_is_made_at_once_is_as_one_that_was_made_step_by_step(values: dict[str, int]) -> None:
    step_by_step = PersistentMap[int]()
    for key, value in values.items():
        step_by_step = step_by_step.set(key, value)
    made = PersistentMap.of(values)
    assert made == step_by_step and len(made) == len(values)
    assert made.set("new", 1) == step_by_step.set("new", 1) and "new" not in made


def test_one_of_thousands_is_as_one_that_was_made_at_once_and_a_change_copies_about_the_root_of_them() -> (
    None
):
    values = {f"a-{number}": number for number in range(5_000)}
    step_by_step = PersistentMap[int]()
    for key, value in values.items():
        step_by_step = step_by_step.set(key, value)
    assert step_by_step == PersistentMap.of(values) != PersistentMap.of({**values, "a-0": -1})
    assert len(step_by_step) == 5_000 and {*step_by_step.values()} == {*values.values()}
    assert len(step_by_step._shards) ** 2 >= 5_000 > len(PersistentMap[int]()._shards) ** 2
    for key in values:
        step_by_step = step_by_step.remove(key)
    assert step_by_step == PersistentMap[int]()


def test_equal_by_content() -> None:
    assert PersistentMap[int]().set("a", 1).set("b", 2) == PersistentMap[int]().set("b", 2).set("a", 1)
    assert PersistentMap[int]().set("a", 1) != PersistentMap[int]().set("a", 2)


@given(st.dictionaries(keys, st.integers()), st.dictionaries(keys, st.integers()))
def test_many_set_at_once_are_as_many_set_one_by_one(before: dict[str, int], values: dict[str, int]) -> None:
    present = one_by_one = PersistentMap.of(before)
    for key, value in values.items():
        one_by_one = one_by_one.set(key, value)
    assert present.set_all(values) == one_by_one and len(present.set_all(values)) == len(one_by_one)
    assert present == PersistentMap.of(before)


def test_many_set_at_once_have_as_many_parts_as_they_need() -> None:
    values = {f"a-{number}": number for number in range(20_000)}
    made = PersistentMap[int]().set_all(values)
    assert made == PersistentMap.of(values) and len(made._shards) ** 2 >= 20_000
