"""The demonstration is right, and says so."""

from glenside import demo


def test_two_images_are_told_apart_and_right(monkeypatch, capsys):
    monkeypatch.setattr(demo, "TARGETS", ("cpu",))
    assert demo.main() == 0
    assert "two images, beside onnxruntime: equal" in " ".join(capsys.readouterr().out.split())


def test_a_wrong_answer_fails(monkeypatch, capsys):
    monkeypatch.setattr(demo, "TARGETS", ("cpu",))
    monkeypatch.setattr(demo, "CLOSE", 0.0)
    assert demo.main() == 1
    assert "DIFFERENT" in capsys.readouterr().out
