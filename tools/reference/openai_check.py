"""Drives `paceline serve` with OpenAI's own Python client, as its users do.

    ./dev reference openai_check

Every call has to give what the client's types promise, and what the same seed gives elsewhere.
Prints one line a check; the exit status says whether all passed.
"""

import asyncio
import json
import os
import re
import tempfile
import time
import typing
import urllib.request

import openai
import pydantic
from served import KEY, Checks, guarded_server

PROMPT = "def fibonacci(n):"
CHAT = [
    {"role": "system", "content": "You write Python."},
    {"role": "user", "content": "Sort a list."},
]

# A model that was not trained to call anything calls where it must: its answer is held to the form.
TEMPLATE = """{% for m in messages %}{{ m.role }}: {{ m.content }}
{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% endfor %}{{ tools | tojson if tools }}"""
TOOLS = [
    {"type": "function", "function": {"name": "weather", "strict": True, "parameters": {
        "type": "object", "additionalProperties": False, "required": ["place", "days"],
        "properties": {"place": {"enum": ["here", "there"]},
                       "days": {"type": "integer", "minimum": 1, "maximum": 9}}}}},
    {"type": "function", "function": {"name": "rest", "strict": True, "parameters": {
        "type": "object", "additionalProperties": False, "required": [], "properties": {}}}}]

checks = Checks()


def metric(address, name):
    with urllib.request.urlopen(address + "/metrics") as page:
        lines = [line for line in page.read().decode().splitlines() if line.startswith(name)]
    return float(lines[0].rsplit(" ", 1)[1])


def await_idle(address):
    while metric(address, "vllm:num_requests_running") or metric(address, "paceline_kv_pages_used"):
        time.sleep(0.01)


def expect(error, call):
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError(f"{error.__name__} was not raised")


@checks.add
def models(client, _):
    listed = client.models.list()
    assert [model.id for model in listed] == ["demo"], listed
    assert client.models.retrieve("demo").object == "model"


@checks.add
def completion(client, _):
    reply = client.completions.create(model="demo", prompt=PROMPT, max_tokens=32, seed=7)
    again = client.completions.create(model="demo", prompt=PROMPT, max_tokens=32, seed=7)
    assert reply.object == "text_completion" and reply.choices[0].text
    assert reply.choices[0].text == again.choices[0].text
    assert reply.choices[0].finish_reason in ("length", "stop")
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.usage.speculation["accepted"] >= 0


@checks.add
def completion_stream(client, _):
    whole = client.completions.create(model="demo", prompt=PROMPT, max_tokens=32, seed=7)
    stream = client.completions.create(
        model="demo", prompt=PROMPT, max_tokens=32, seed=7, stream=True,
        stream_options={"include_usage": True})
    parts = list(stream)
    assert "".join(part.choices[0].text for part in parts if part.choices) == whole.choices[0].text
    assert parts[-1].usage == whole.usage or parts[-1].usage.total_tokens == whole.usage.total_tokens
    assert not parts[-1].choices and len(parts) > 3


@checks.add
def completion_lists(client, _):
    reply = client.completions.create(
        model="demo", prompt=["import", "class A"], n=2, max_tokens=8, seed=1)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    ids = client.completions.create(model="demo", prompt=[5, 6, 7], max_tokens=4)
    assert ids.usage.prompt_tokens == 3
    lists = client.completions.create(model="demo", prompt=[[5, 6], [7]], max_tokens=4)
    assert lists.usage.prompt_tokens == 3 and len(lists.choices) == 2


@checks.add
def completion_logprobs(client, _):
    reply = client.completions.create(
        model="demo", prompt=PROMPT, max_tokens=4, echo=True, logprobs=3, temperature=0)
    scores = reply.choices[0].logprobs
    assert reply.choices[0].text.startswith(PROMPT)
    assert "".join(scores.tokens) == reply.choices[0].text
    assert scores.token_logprobs[0] is None
    assert all(value <= 0 for value in scores.token_logprobs[1:])
    assert all(len(top) >= 3 for top in scores.top_logprobs[1:])
    generated = scores.tokens[-4:]
    greedy = [max(top, key=top.get) for top in scores.top_logprobs[-4:]]
    assert generated == greedy, (generated, greedy)


@checks.add
def chat(client, _):
    reply = client.chat.completions.create(
        model="demo", messages=CHAT, max_completion_tokens=24, seed=3)
    assert reply.object == "chat.completion"
    assert reply.choices[0].message.role == "assistant" and reply.choices[0].message.content
    assert reply.system_fingerprint.startswith("paceline-")


@checks.add
def chat_stream(client, _):
    whole = client.chat.completions.create(
        model="demo", messages=CHAT, max_tokens=24, seed=3, n=2)
    texts = ["", ""]
    reasons = [None, None]
    for part in client.chat.completions.create(
            model="demo", messages=CHAT, max_tokens=24, seed=3, n=2, stream=True):
        for choice in part.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == [choice.message.content for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]


@checks.add
def chat_stream_helper(client, _):
    with client.chat.completions.stream(
            model="demo", messages=CHAT, max_tokens=12, seed=3) as stream:
        text = ""
        for event in stream:
            if event.type == "content.delta":
                text += event.delta
            if event.type == "content.done":  # beyond it the helper refuses what max_tokens ended
                assert event.content == text
                break
    assert text


@checks.add
def chat_logprobs(client, _):
    reply = client.chat.completions.create(
        model="demo", messages=CHAT, max_tokens=5, logprobs=True, top_logprobs=2)
    for token in reply.choices[0].logprobs.content:
        assert len(token.top_logprobs) == 2 and token.logprob <= 0
        assert token.bytes is None or bytes(token.bytes).decode() == token.token


@checks.add
def sampling(client, _):
    banned = client.completions.create(
        model="demo", prompt=PROMPT, max_tokens=8, temperature=0).choices[0].text
    for more in ({"temperature": 1.2, "top_p": 0.9}, {"presence_penalty": 1.5},
                 {"frequency_penalty": 1.5}, {"logit_bias": {"5": -100, "6": 100}},
                 {"stop": ["\n\n", "return"]}, {"extra_body": {"top_k": 5, "min_p": 0.01}},
                 {"extra_body": {"speculation": {"mode": "sync", "window": 3}}}):
        assert client.completions.create(model="demo", prompt=PROMPT, max_tokens=8, **more)
    stopped = client.completions.create(
        model="demo", prompt=PROMPT, max_tokens=8, temperature=0, stop=banned[2:4])
    assert banned[2:4] not in stopped.choices[0].text
    assert stopped.choices[0].finish_reason == "stop"


@checks.add
def errors(client, address):
    def ask(**more):
        return lambda: client.completions.create(
            **{"model": "demo", "prompt": PROMPT, "max_tokens": 4, **more})

    wrong = expect(openai.BadRequestError, ask(temperature=-1))
    assert wrong.param == "temperature" and "temperature" in wrong.message
    assert expect(openai.BadRequestError, ask(best_of=3)).param == "best_of"
    assert expect(openai.BadRequestError, ask(prompt=[5] * 100_000)).status_code == 400
    assert expect(openai.NotFoundError, ask(model="gpt-4o")).code == "model_not_found"
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    assert expect(openai.BadRequestError, lambda: client.chat.completions.create(
        model="demo", messages=CHAT, tools=tools)).param == "tools"
    image = [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]
    assert "content" in expect(openai.BadRequestError, lambda: client.chat.completions.create(
        model="demo", messages=image)).param
    unheld = {"type": "json_schema", "json_schema": {
        "name": "x", "schema": {"type": "array", "uniqueItems": True}}}
    assert "uniqueItems" in expect(openai.BadRequestError, lambda: client.chat.completions.create(
        model="demo", messages=CHAT, response_format=unheld)).message
    stranger = openai.OpenAI(base_url=address + "/v1", api_key="wrong", max_retries=0)
    assert expect(openai.AuthenticationError, stranger.models.list).status_code == 401
    assert expect(openai.NotFoundError, lambda: client.embeddings.create(
        model="demo", input="x")).status_code == 404


@checks.add
def answers_in_a_form(client, address):
    class Weather(pydantic.BaseModel):
        place: typing.Literal["here", "there"]
        rain: bool

    for seed in range(5):
        answer = client.chat.completions.parse(
            model="demo", messages=CHAT, response_format=Weather, seed=seed, max_tokens=200,
            temperature=1)
        assert answer.choices[0].finish_reason == "length" or \
            answer.choices[0].message.parsed.place in ("here", "there")
    text = client.completions.create(
        model="demo", prompt=PROMPT, max_tokens=40, temperature=1,
        extra_body={"structured_outputs": {"regex": "[0-9]{4}-[0-9]{2}"}}).choices[0].text
    assert re.fullmatch("[0-9]{4}-[0-9]{2}", text), text


@checks.add
def responses(client, address):
    ask = {"model": "demo", "input": "Sort a list.", "instructions": "You write Python.",
           "max_output_tokens": 24, "extra_body": {"seed": 3}}
    whole = client.responses.create(**ask)
    chat_text = client.chat.completions.create(
        model="demo", messages=CHAT, max_tokens=24, seed=3).choices[0].message.content
    assert whole.object == "response" and whole.output_text == chat_text
    assert whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens"
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
    events = list(client.responses.create(**ask, stream=True))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == chat_text
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == chat_text
    with client.responses.stream(**ask) as stream:
        snapshots = [e.snapshot for e in stream if e.type == "response.output_text.delta"]
    assert snapshots[-1] == chat_text
    goes_on = client.responses.create(
        **{**ask, "input": [{"role": "user", "content": "Sort a list."}, *whole.output,
                            {"role": "user", "content": "Again."}]})
    assert goes_on.usage.input_tokens > whole.usage.total_tokens
    for field, value in (("store", True), ("previous_response_id", whole.id), ("top_logprobs", 2)):
        refused = expect(openai.BadRequestError,
                         lambda: client.responses.create(**{**ask, field: value}))
        assert refused.param == field
    assert expect(openai.NotFoundError, lambda: client.responses.retrieve(whole.id)).code


@checks.add
def parsed_responses(client, address):
    class Weather(pydantic.BaseModel):
        place: typing.Literal["here", "there"]
        rain: bool

    ask = {"model": "demo", "input": "Say it.", "text_format": Weather, "temperature": 1}
    for seed in range(4):
        answer = client.responses.parse(**ask, extra_body={"seed": seed})
        assert answer.status == "completed" and answer.output_parsed.place in ("here", "there")
        with client.responses.stream(**ask, extra_body={"seed": seed}) as stream:
            done = [e for e in stream if e.type == "response.output_text.done"]
            assert done[0].parsed == answer.output_parsed
            assert stream.get_final_response().output_parsed == answer.output_parsed


@checks.add
def cancel_by_closing(client, address):
    for _ in range(20):
        stream = client.completions.create(
            model="demo", prompt=PROMPT, max_tokens=900, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
    await_idle(address)


@checks.add
def many_at_once(_, address):
    async def run():
        async with openai.AsyncOpenAI(base_url=address + "/v1", api_key=KEY) as client:
            async def one():
                text = ""
                stream = await client.completions.create(
                    model="demo", prompt=PROMPT, max_tokens=24, seed=9, stream=True)
                async for part in stream:
                    text += part.choices[0].text
                return text
            return await asyncio.gather(*(one() for _ in range(50)))

    texts = asyncio.run(run())
    assert len(set(texts)) == 1, "the same seed gave different texts"


def check_call(call):
    arguments = json.loads(call.function.arguments)
    assert call.type == "function" and call.id
    if call.function.name == "rest":
        assert arguments == {}
    else:
        assert call.function.name == "weather"
        assert arguments["place"] in ("here", "there") and 1 <= arguments["days"] <= 9


def tools():
    """Calls that must come are there, whole, streamed and by the client's own helper."""
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write(TEMPLATE)
        template.flush()
        with guarded_server("--chat-template", template.name) as (address, _):
            client = openai.OpenAI(base_url=address + "/v1", api_key=KEY, max_retries=0)
            for seed in range(4):
                ask = {"model": "demo", "messages": CHAT, "tools": TOOLS, "seed": seed,
                       "temperature": 1, "max_tokens": 200, "parallel_tool_calls": False}
                check_tools(client, {**ask, "tool_choice": "required"})
            named = {"type": "function", "function": {"name": "rest"}}
            call = client.chat.completions.create(
                **{**ask, "tool_choice": named}).choices[0].message.tool_calls[0]
            assert call.function.name == "rest"
            history = CHAT + [
                {"role": "assistant", "tool_calls": [call.model_dump()]},
                {"role": "tool", "tool_call_id": call.id, "content": "done"}]
            answer = client.chat.completions.create(
                **{**ask, "messages": history, "tool_choice": "none", "max_tokens": 5})
            assert answer.choices[0].message.content and not answer.choices[0].message.tool_calls
            check_response_tools(client)


def check_tools(client, ask):
    whole = client.chat.completions.create(**ask).choices[0]
    assert whole.finish_reason == "tool_calls" and whole.message.content is None
    [call] = whole.message.tool_calls
    check_call(call)
    name, arguments, reason = None, "", None
    for part in client.chat.completions.create(**ask, stream=True):
        for piece in part.choices[0].delta.tool_calls or []:
            assert piece.index == 0 and (name is None) == bool(piece.id)
            name = name or piece.function.name
            arguments += piece.function.arguments or ""
        reason = part.choices[0].finish_reason or reason
    assert (name, arguments, reason) == (call.function.name, call.function.arguments, "tool_calls")
    with client.chat.completions.stream(**ask) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert final.function.arguments == arguments
    assert final.function.parsed_arguments == json.loads(arguments)


def check_response_tools(client):
    """The same by /v1/responses, whose tools have no function of their own."""
    flat = [{"type": "function", **tool["function"]} for tool in TOOLS]
    for seed in range(4):
        ask = {"model": "demo", "input": "Sort a list.", "tools": flat, "tool_choice": "required",
               "parallel_tool_calls": False, "temperature": 1, "store": False,
               "extra_body": {"seed": seed}}
        whole = client.responses.parse(**ask)
        [call] = whole.output
        assert whole.status == "completed" and call.type == "function_call" and call.call_id
        assert call.parsed_arguments == json.loads(call.arguments)
        with client.responses.stream(**ask) as stream:
            snapshots = [e.snapshot for e in stream
                         if e.type == "response.function_call_arguments.delta"]
            [final] = stream.get_final_response().output
        assert (final.name, final.arguments) == (call.name, call.arguments) == \
            (call.name, snapshots[-1])
    named = client.responses.create(**{**ask, "tool_choice": {"type": "function", "name": "rest"}})
    [call] = named.output
    assert call.name == "rest"
    answer = client.responses.create(
        **{**ask, "tool_choice": "none", "max_output_tokens": 5,
           "input": [{"role": "user", "content": "Sort a list."}, call,
                     {"type": "function_call_output", "call_id": call.call_id, "output": "done"}]})
    assert answer.output_text


def overload():
    """A full server is retried by the client until there is room."""
    with guarded_server("--max-num-seqs", "1", "--max-waiting", "0") as (address, _):
        client = openai.OpenAI(base_url=address + "/v1", api_key=KEY, max_retries=0)
        first = client.completions.create(
            model="demo", prompt=PROMPT, max_tokens=900, stream=True, extra_body={"ignore_eos": True})
        next(iter(first))
        refused = expect(openai.RateLimitError, lambda: client.completions.create(
            model="demo", prompt=PROMPT, max_tokens=2))
        assert refused.response.headers["retry-after"] == "1"
        first.close()
        patient = client.with_options(max_retries=5)
        assert patient.completions.create(model="demo", prompt=PROMPT, max_tokens=2).choices


def drain():
    """SIGTERM while a stream runs: it comes to its end."""
    with guarded_server() as (address, process):
        client = openai.OpenAI(base_url=address + "/v1", api_key=KEY)
        stream = client.completions.create(
            model="demo", prompt=PROMPT, max_tokens=400, stream=True, extra_body={"ignore_eos": True})
        parts = [next(iter(stream))]
        process.terminate()
        parts += list(stream)
        assert parts[-1].choices[0].finish_reason == "length"


def main():
    os.environ.pop("OPENAI_API_KEY", None)
    with guarded_server() as (address, _):
        checks.run_all(openai.OpenAI(base_url=address + "/v1", api_key=KEY, max_retries=0), address)
    for alone in (tools, overload, drain):
        checks.run(alone)
    checks.end(f"openai {openai.__version__}")


if __name__ == "__main__":
    main()
