import inspect
from typing import get_args

import pytest

from kernel import errors
from kernel.errors import Code, KernelError, LockedError, SupervisionError, SupervisionWord

ERRORS = [
    one
    for _, one in inspect.getmembers(errors, inspect.isclass)
    if issubclass(one, KernelError) and one is not KernelError
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda one: one.__name__)
def test_every_error_has_a_code_that_the_api_knows(error: type[KernelError]) -> None:
    assert error.code in get_args(Code)


@pytest.mark.parametrize("word", get_args(SupervisionWord))
def test_every_word_of_a_supervisor_has_a_code(word: SupervisionWord) -> None:
    error = SupervisionError(word, "what happened")
    assert error.code in get_args(Code)
    assert (error.word, error.message, str(error)) == (word, "what happened", "what happened")


def test_every_code_is_some_errors() -> None:
    assert {error.code for error in ERRORS} == set(get_args(Code))


def test_a_lock_names_its_holder() -> None:
    error = LockedError("in use", 42, runs=True)
    assert (error.pid, error.runs) == (42, True)
