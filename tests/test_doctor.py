"""What is said of an installation is what is there."""

import sys
from importlib import metadata

import numpy as np

from glenside import doctor
from glenside.codegen import linking


def found(part, name):
    (one,) = [each for each in doctor.examine() if (each.part, each.name) == (part, name)]
    return one


def test_what_is_installed_is_told_with_its_version():
    numpy = found("package", "numpy")
    assert (numpy.found, numpy.told) == (True, np.__version__)
    assert found("target", "cpu").found


def test_an_extra_that_is_missing_says_what_would_bring_it(monkeypatch):
    monkeypatch.setitem(doctor.EXTRAS, "prove", ("no-such-distribution", "rules proved"))
    missing = found("extra", "prove")
    assert not missing.found
    assert missing.told == "for rules proved: pip install 'glenside[prove]'"


def test_a_missing_linker_and_device_are_told_not_raised(monkeypatch):
    monkeypatch.setattr(linking.shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    assert "none is on the path" in found("tool", "linker").told
    opencl = found("target", "opencl")
    assert not opencl.found
    assert "pip install 'glenside[opencl]'" in opencl.told


def test_the_machine_is_named_with_the_version():
    assert doctor.machine().startswith(f"Glenside {metadata.version('glenside')}, Python 3.")
    told = doctor.as_json(doctor.examine())
    assert {each["part"] for each in told["findings"]} == {"package", "extra", "tool", "target"}
