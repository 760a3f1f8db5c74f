"""Drives `paceline serve` with the client libraries that programs use, as docs/clients.md says.

    ./dev reference clients_check

What each says of the same conversation is what the server says to anybody. Prints one line a check;
the exit status says whether all passed.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False",
               "LANGCHAIN_TRACING_V2": "false"}

import instructor
import litellm
import openai
import pydantic
from langchain_openai import ChatOpenAI
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from served import Checks, server

QUESTION = "def fibonacci(n):"
CHAT = [{"role": "user", "content": QUESTION}]
TOKENS = 24

checks = Checks()


def said(base, seed=None):
    """The answer to QUESTION, by nothing but HTTP: greedy, or with a seed."""
    body = {"messages": CHAT, "max_tokens": TOKENS, "temperature": 0 if seed is None else 1}
    body |= {} if seed is None else {"seed": seed}
    request = urllib.request.Request(base + "/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


class Weather(pydantic.BaseModel):
    """What a town's weather is."""

    raining: bool


@checks.add
def lite_llm(base):
    ask = {"model": "openai/demo", "api_base": base, "api_key": "unused", "messages": CHAT,
           "max_tokens": TOKENS, "temperature": 1, "seed": 5}
    whole = litellm.completion(**ask)
    assert whole.choices[0].message.content == said(base, 5)
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    parts = [part.choices[0].delta.content or "" for part in litellm.completion(**ask, stream=True)]
    assert "".join(parts) == said(base, 5) and len(parts) > 3
    held = litellm.completion(**{**ask, "max_tokens": 100}, response_format=Weather)
    Weather.model_validate_json(held.choices[0].message.content)
    try:
        litellm.embedding("openai/demo", input=["x"], api_base=base, api_key="unused")
        raise AssertionError("there are no embeddings")
    except litellm.NotFoundError as error:
        assert "/v1/embeddings" in str(error), error


@checks.add
def lang_chain(base):
    model = ChatOpenAI(model="demo", base_url=base, api_key="unused", temperature=0,
                       max_tokens=TOKENS)
    assert model.invoke(QUESTION).content == said(base)
    assert "".join(part.content for part in model.stream(QUESTION)) == said(base)
    assert [one.content for one in model.batch([QUESTION] * 3)] == [said(base)] * 3
    held = ChatOpenAI(model="demo", base_url=base, api_key="unused", max_tokens=100)
    answer = held.with_structured_output(Weather, method="json_schema").invoke(QUESTION)
    assert isinstance(answer, Weather), answer


@checks.add
def llama_index(base):
    model = OpenAILike(model="demo", api_base=base, api_key="unused", is_chat_model=True,
                       temperature=0, max_tokens=TOKENS)
    messages = [ChatMessage(role="user", content=QUESTION)]
    assert model.chat(messages).message.content == said(base)
    assert "".join(part.delta or "" for part in model.stream_chat(messages)) == said(base)
    assert model.complete(QUESTION).text == said(base)


@checks.add
def structured_by_instructor(base):
    client = instructor.from_openai(openai.OpenAI(base_url=base, api_key="unused"),
                                    mode=instructor.Mode.JSON_SCHEMA)
    for seed in range(3):
        answer = client.chat.completions.create(
            model="demo", messages=CHAT, response_model=Weather, max_tokens=100, seed=seed,
            max_retries=0)
        assert isinstance(answer, Weather), answer
    parts = list(client.chat.completions.create_partial(
        model="demo", messages=CHAT, response_model=Weather, max_tokens=100, max_retries=0))
    assert isinstance(parts[-1].raining, bool), parts


@checks.add
def pydantic_ai(base):
    model = OpenAIChatModel("demo", provider=OpenAIProvider(base_url=base, api_key="unused"))
    settings = {"max_tokens": TOKENS, "temperature": 0}
    assert Agent(model, model_settings=settings).run_sync(QUESTION).output == said(base)
    held = Agent(model, output_type=NativeOutput(Weather), model_settings={"max_tokens": 100})
    assert isinstance(held.run_sync(QUESTION).output, Weather)


@checks.add
def llm(base):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "extra-openai-models.yaml").write_text(
            f"- model_id: paceline\n  model_name: demo\n  api_base: {base}\n")
        program = os.path.join(os.path.dirname(sys.executable), "llm")

        def run(*words):
            return subprocess.run([program, *words], check=True, text=True, stdout=subprocess.PIPE,
                                  env=os.environ | {"LLM_USER_PATH": folder,
                                                    "OPENAI_API_KEY": "unused"}).stdout

        assert "paceline" in run("models", "list")
        options = ["-o", "temperature", "0", "-o", "max_tokens", str(TOKENS)]
        for more in ([], ["--no-stream"]):
            assert run("-m", "paceline", *options, *more, QUESTION) == said(base) + "\n"
        again = run("-m", "paceline", *options, "-c", "again")  # a conversation from its log
        assert again.strip()


def main():
    with server() as (address, _):
        checks.run_all(address + "/v1")
    checks.end("clients")


if __name__ == "__main__":
    main()
