"""What all verbs do first: one walk through importing, exploring and extracting."""

import pytest

from glenside.deadline import TimeIsUp
from glenside.errors import InputError, NotEnoughMemory, NotOptimised
from glenside.hw_targets import find_target
from glenside.pipeline import Clock, Pipeline
from tests.models import small_network

TARGET = find_target("systolic-array:16x16")


def walk(**options):
    pipeline = Pipeline("the program is as it was", **options)
    model = pipeline.imported(small_network()).model
    explored = pipeline.explored(model, TARGET.rules())
    return pipeline, model, pipeline.extracted(explored, model, TARGET.cost_model())


def test_stages_are_timed_and_announced_in_order():
    told = []
    pipeline, _, extracted = walk(progress=lambda stage, done, total: told.append(stage))
    assert list(dict.fromkeys(told)) == ["import", "saturate", "extract"]
    assert list(pipeline.clock.seconds) == ["import", "saturate", "extract"]
    assert (pipeline.failure.reason, pipeline.cut) == (None, [])
    assert extracted.extractor != "original"


@pytest.mark.parametrize("stage", ["saturate", "extract"])
def test_a_fault_gives_the_program_as_imported(monkeypatch, stage):
    def fails(*args, **kwargs):
        raise RuntimeError("broken")

    place = "glenside.rewrites.saturate" if stage == "saturate" else "glenside.extraction.extract"
    monkeypatch.setattr(place, fails)
    with pytest.warns(NotOptimised, match=f"as it was: RuntimeError: broken .*{stage}"):
        pipeline, model, extracted = walk()
    assert extracted.terms == list(model.roots)
    assert pipeline.failure.reason is not None and pipeline.cut == []


def test_time_that_is_over_gives_the_program_as_imported(monkeypatch):
    def late(*args, **kwargs):
        raise TimeIsUp

    monkeypatch.setattr("glenside.extraction.extract", late)
    pipeline, model, extracted = walk(time_limit=600)
    assert extracted.terms == list(model.roots)
    assert (pipeline.cut, pipeline.failure.reason) == (["extract"], None)


def test_half_precision_keeps_what_it_is_held_against():
    pipeline = Pipeline("")
    taken = pipeline.imported(small_network(), precision="float16")
    assert "float16" in {term.dtype for term in taken.model.terms()}
    assert {term.dtype for term in taken.full().terms()} == {"float32"}
    assert pipeline.imported(small_network()).full() is None
    with pytest.raises(InputError, match="precision and quantize both"):
        pipeline.imported(small_network(), precision="float16", quantize={})


def test_what_a_listener_raises_is_kept_and_raised():
    def listener(stage, done, total):
        raise ValueError("mine")

    clock = Clock(listener)
    with pytest.raises(ValueError, match="mine"), clock.stage("import"):
        pass
    assert [str(each) for each in clock.raised] == ["mine"]


def test_memory_that_is_refused_names_the_stage():
    said = pytest.raises(NotEnoughMemory, match="saturate takes more memory than there is: 8 TiB")
    with said, Clock(None).stage("saturate"):
        raise MemoryError("8 TiB")
