"""A few hundred mutated models: each ends in an answer or in one of our errors."""

from tests.frontends.onnx import fuzzing


def test_mutated_models_end_well():
    results = fuzzing.fuzz(seed=0, count=400)
    assert len(results) == 400
    assert not {number: ended for number, ended in results.items() if fuzzing.is_bad(ended)}
    # Most that run must be ones that onnxruntime runs alike.
    assert sum(ended == "agrees" for ended in results.values()) >= 50
