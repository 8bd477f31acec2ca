"""What exceptions keep, in looks one after another: those that something holds, and those that are lost in a cycle."""

import builtins
import gc
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from checks import check, run  # noqa: E402
from owner_texts import owner_text  # noqa: E402
from reader_looks import Looks  # noqa: E402

SOME = 4
"""So many looks are taken before something changes: by then a look passes over what led to nothing."""
HELD = [("kept (exception box.error", "exception")]
UNSEARCHED = [("kept (exception RuntimeError()", "exception")]
LOST = [("kept (lost exception", "lost_exception")]


class Box:
    def __init__(self, **attributes):
        vars(self).update(attributes)


def fail():
    kept = torch.ones(500, 500, device="cuda")
    raise ValueError(kept.data_ptr())


def fail_from():
    try:
        fail()
    except ValueError as error:
        raise RuntimeError from error


def caught(function):
    """The exception of a function; nothing but the caller holds it."""
    try:
        function()
    except Exception as error:  # noqa: BLE001 - any
        return error


def kept(looks):
    """The text of the owner, without its place, and the keeper of each tensor that has a keeper."""
    storages = (storage for storage in looks.take()["storages"] if storage["keeper"])
    return [(owner_text(storage).partition(",")[0], storage["keeper"]) for storage in storages]


@check
def the_exceptions_behind_a_held_one_keep_their_locals_by_the_name_of_its_holder():
    box = Box(error=caught(fail_from))
    assert kept(Looks()) == HELD
    if sys.version_info >= (3, 11):
        box.error = builtins.ExceptionGroup("of one", [caught(fail)])
        assert kept(Looks()) == HELD


@check
def a_tensor_that_belongs_to_the_cause_of_an_exception_has_a_name():
    box = Box(error=caught(fail_from))
    box.error.__cause__.mine = torch.ones(8, device="cuda")
    assert ("mine (exception box.error)", "exception") in kept(Looks())


@check
def an_exception_that_no_search_comes_to_is_not_called_lost():
    gc.collect()
    box = Box(error=None)
    looks = Looks(SOME)
    box.error = caught(fail_from)
    assert kept(looks) == UNSEARCHED
    gc.collect()
    assert kept(looks) == UNSEARCHED
    box.error = None
    assert kept(looks) == []


def lost_in_variable():
    try:
        fail()
    except ValueError as error:
        _kept = error


def lost_in_object():
    box = Box()
    try:
        fail_from()
    except RuntimeError as error:
        box.error = error


def lost_in_list():
    errors = []
    try:
        fail()
    except ValueError as error:
        errors.append(error)


def lost_in_itself():
    error = caught(fail)
    error.itself = error


def lost_in_a_circle_of_causes():
    first, second = caught(fail), caught(fail_from)
    first.__cause__, second.__context__ = second, first
    second.__cause__ = None


@check
def an_exception_in_a_cycle_of_its_own_is_lost_as_long_as_it_is_there():
    for lose in (lost_in_variable, lost_in_object, lost_in_list, lost_in_itself, lost_in_a_circle_of_causes):
        gc.collect()
        gc.disable()
        looks = Looks()
        lose()
        for _ in range(2):
            assert set(kept(looks)) == set(LOST), (lose, kept(looks))
        gc.enable()
        gc.collect()
        assert kept(looks) == [], lose


@check
def what_takes_the_place_of_an_exceptions_local_is_not_named_after_it():
    gc.collect()
    box, model = Box(error=caught(fail)), torch.nn.Linear(8, 8, device="cuda")
    looks = Looks()
    assert kept(looks) == HELD
    address = box.error.args[0]
    box.error = None
    model.weight.main_grad = torch.ones(500, 500, device="cuda")
    gc.collect()  # it is not young any more: nothing leads to it
    assert model.weight.main_grad.data_ptr() == address
    assert kept(looks) == []


run()
