"""Every field of the headers' structs is there in Python, and what Python sets is what C++ has."""

import datetime
import re
import typing

import paceline
import pytest
from paceline import _fields, _native

SAMPLES = {
    "constraint": {"regex": "[0-9]+"},
    "logit_bias": {5: -1.5},
    "speculation": "sync",
    "verify": "match",
    "logprobs_mode": "processed",
    "drafter": "none",
    "deadline": 1.5,
    "stop": ["x", "y"],
}


def members(headers, header, struct):
    """Names of a struct's data members, by reading the header."""
    text = re.sub(r"//[^\n]*", "", (headers / header).read_text())
    body = re.search(rf"\bstruct {struct}( : \w+)? {{(.*?)\n}};", text, re.S)[2]
    body = re.sub(r"enum class \w+ {.*?};", "", body, flags=re.S)
    found = []
    for statement in body.split(";"):
        statement = " ".join(statement.split())
        while statement.startswith("}"):
            statement = statement[1:].strip()
        if re.match(r"[\w:<>, &]+ \w+\(", statement) or statement.startswith("return"):
            continue  # a function
        if statement := re.sub(r"\s*(=.*|{.*})$", "", statement):
            found.append(statement.split()[-1])
    assert found
    return set(found)


def attributes(struct):
    return {name for name in dir(struct) if not name.startswith("_")}


def test_request_has_every_field_of_the_header(headers):
    wanted = members(headers, "request.hpp", "Request") - {"sampling"}
    wanted |= members(headers, "request.hpp", "Sampling")
    assert attributes(_native.Request) == wanted
    assert set(typing.get_type_hints(_fields.RequestFields)) == wanted


def test_engine_has_every_option_of_the_header(headers):
    wanted = members(headers, "engine.hpp", "EngineOptions")
    wanted -= {"target", "drafters", "custom_drafter"} | {"virtual_time", "schedule_seed", "stop"}
    assert attributes(_native.EngineOptions) == wanted | {"model", "draft"}
    assert set(typing.get_type_hints(_fields.EngineFields)) == wanted
    for struct, fields in (("FaultOptions", _fields.FaultFields), ("NodeTls", _fields.NodeTlsFields)):
        assert attributes(getattr(_native, struct)) == members(headers, "engine.hpp", struct)
        assert set(typing.get_type_hints(fields)) == attributes(getattr(_native, struct))


@pytest.mark.parametrize(
    "header, struct, apart",
    [
        ("event.hpp", "Delta", set()),
        ("event.hpp", "TokenLogprob", set()),
        ("event.hpp", "PromptLogprobs", set()),
        ("event.hpp", "SpeculationStats", set()),
        ("event.hpp", "DrafterCounts", set()),
        ("event.hpp", "Usage", set()),
        ("event.hpp", "Timing", set()),
        ("engine.hpp", "ModelInfo", set()),
        ("engine.hpp", "StageInfo", set()),
        ("engine.hpp", "Metrics", set()),
        ("drafter.hpp", "DrafterSampling", set()),
        ("drafter.hpp", "DraftedSequence", set()),
    ],
)
def test_results_have_every_field_of_the_header(headers, header, struct, apart):
    assert members(headers, header, struct) - apart <= attributes(getattr(_native, struct))


def test_a_completion_has_what_its_end_has(headers):
    wanted = members(headers, "event.hpp", "Finished") - {"reason", "error"} | {"finish_reason"}
    wanted |= members(headers, "event.hpp", "Completion") - {"end"} | {"prompt_logprobs"}
    assert attributes(_native.Completion) == wanted


def sample(name, hint):
    """A value for a field that differs from what it is by itself."""
    if name in SAMPLES:
        return SAMPLES[name]
    neutral = getattr(_native.Request(), name)
    text = str(hint)
    if isinstance(neutral, bool):
        return not neutral
    if "Sequence[int]" in text:
        return [3, 4]
    if "float" in text:
        return 0.5
    if "int" in text:
        return 7
    return "text"


def test_every_request_field_crosses():
    for name, hint in typing.get_type_hints(_fields.RequestFields).items():
        value = sample(name, hint)
        got = getattr(paceline.Request(paceline.Request(**{name: value})), name)
        if name == "constraint":
            assert (got.kind, got.text) == ("regex", "[0-9]+")
        elif name == "deadline":
            assert got == datetime.timedelta(seconds=1.5)
        elif name == "logit_bias":
            assert got == [(5, -1.5)]
        else:
            assert got == value, name
        assert got != getattr(paceline.Request(), name), name


@pytest.mark.parametrize("name", sorted(_fields.RequestFields.__annotations__))
def test_a_value_of_another_type_is_refused_by_the_field_s_name(engine, name):
    with pytest.raises(paceline.Error) as refused:
        engine.complete(**{name: object()} if name != "logit_bias" else {name: [object()]})
    assert (refused.value.code, refused.value.field) == ("invalid_argument", name)
    assert refused.value.hint.startswith("give ")


def test_a_name_that_no_request_has_is_a_type_error_with_a_proposal(engine):
    with pytest.raises(TypeError, match="did you mean 'temperature'"):
        engine.complete("x", temprature=0.5)
    with pytest.raises(TypeError, match="did you mean 'max_num_seqs'"):
        paceline.Engine(max_num_seq=1)
    with pytest.raises(AttributeError):
        paceline.Request().temprature = 0.5


@pytest.mark.parametrize(
    "options, field",
    [
        ({"threads": -1}, "threads"),
        ({"threads": "many"}, "threads"),
        ({"devices": ["cpu", "cpu"]}, "devices"),
        ({"draft_devices": ["cpu", "cpu"]}, "draft_devices"),
        ({"page_tokens": 0}, "page_tokens"),
        ({"draft": 7}, "draft"),
        ({"faults": {"heartbeat": "soon"}}, "heartbeat"),
        ({"weights": "q4_0"}, "weights"),
        ({"log": 3}, "log"),
    ],
)
def test_an_impossible_option_is_named(options, field):
    with pytest.raises((paceline.Error, TypeError)) as refused:
        paceline.Engine(**options)
    assert field in str(refused.value)
    if isinstance(refused.value, paceline.Error):
        assert refused.value.field == field


def test_a_model_that_is_not_there_is_not_found():
    with pytest.raises(paceline.Error) as refused:
        paceline.Engine("/no/such/model")
    assert refused.value.code == "not_found"
    assert "EngineOptions" not in str(refused.value)
