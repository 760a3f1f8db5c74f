"""Asks `paceline serve --grpc-port` as a stranger does: gRPC's own Python library, and of the
service no more than what the server's reflection says, as `grpcurl` asks.

    ./dev reference grpc_check

Prints one line a check; the exit status says whether all passed.
"""

import contextlib

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_status import rpc_status
from served import KEY, Checks, guarded_server

SERVICE = "paceline.v1.Paceline"
PROMPT = "def fibonacci(n):"

checks = Checks()


@contextlib.contextmanager
def grpc_server():
    """A server; gives a channel to it, and its process."""
    with guarded_server("--grpc-port", "0") as (_, process):
        address = process.stdout.readline().strip().removeprefix("grpc://")
        with grpc.insecure_channel(address) as channel:
            yield channel, process


class Caller:
    """Calls by name, with messages that reflection describes."""

    def __init__(self, channel, key=KEY):
        self.channel = channel
        self.key = key
        self.pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        self.service = self.pool.FindServiceByName(SERVICE)

    def call(self, method, **fields):
        about = self.service.methods_by_name[method]
        request = message_factory.GetMessageClass(about.input_type)(**fields)
        begin = self.channel.unary_stream if about.server_streaming else self.channel.unary_unary
        reply = message_factory.GetMessageClass(about.output_type)
        return begin(f"/{SERVICE}/{method}", request_serializer=type(request).SerializeToString,
                     response_deserializer=reply.FromString)(
                         request, metadata=[("authorization", f"Bearer {self.key}")])

    def message(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(name))


def expect(code, action):
    try:
        action()
    except grpc.RpcError as error:
        assert error.code() == code, error
        return error
    raise AssertionError(f"{code} was not raised")


@checks.add
def reflection(channel):
    names = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert {SERVICE, "grpc.health.v1.Health"} <= set(names), names
    assert set(Caller(channel).service.methods_by_name) == {"Generate", "Tokenize", "Models"}


@checks.add
def models(channel):
    reply = Caller(channel).call("Models")
    assert [model.name for model in reply.models] == ["demo"] and reply.ready and reply.healthy


@checks.add
def answer(channel):
    caller = Caller(channel)
    tokens = caller.call("Tokenize", prompt=PROMPT).tokens
    texts = []
    for prompt in ({"prompt": PROMPT}, {"prompt_tokens": tokens}):
        sampling = {"temperature": 1, "seed": 7}
        call = caller.call("Generate", max_tokens=32, sampling=sampling, **prompt)
        assert "x-request-id" in dict(call.initial_metadata())
        events = list(call)
        end = events[-1].finished
        assert end.usage.prompt_tokens == len(tokens) and end.seed == 7, end
        assert sum(len(event.delta.tokens) for event in events) == end.usage.completion_tokens
        texts.append("".join(event.delta.text for event in events))
    assert texts[0] and texts[0] == texts[1], texts


@checks.add
def cancelling(channel):
    call = Caller(channel).call("Generate", prompt=PROMPT, max_tokens=400, ignore_eos=True)
    next(call)
    call.cancel()
    expect(grpc.StatusCode.CANCELLED, lambda: list(call))


@checks.add
def refusals(channel):
    caller = Caller(channel)
    wrong = expect(grpc.StatusCode.INVALID_ARGUMENT,
                   lambda: list(caller.call("Generate", prompt=PROMPT, sampling={"top_p": 7})))
    detail = rpc_status.from_call(wrong).details[0]
    told = caller.message("paceline.v1.Error").FromString(detail.value)
    assert told.message in wrong.details() and told.hint in wrong.details() and told.hint, wrong
    expect(grpc.StatusCode.UNAUTHENTICATED,
           lambda: list(Caller(channel, "another").call("Generate", prompt=PROMPT)))
    expect(grpc.StatusCode.NOT_FOUND, lambda: caller.call("Tokenize", model="other", prompt="a"))


@checks.add
def health(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", SERVICE):
        reply = stub.Check(health_pb2.HealthCheckRequest(service=service))
        assert reply.status == health_pb2.HealthCheckResponse.SERVING, reply


def drain():
    """SIGTERM while a stream runs: it comes to its end, and health says so meanwhile."""
    with grpc_server() as (channel, process):
        told = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(told).status == health_pb2.HealthCheckResponse.SERVING
        call = Caller(channel).call("Generate", prompt=PROMPT, max_tokens=400, ignore_eos=True)
        next(call)
        process.terminate()
        assert next(told).status == health_pb2.HealthCheckResponse.NOT_SERVING
        events = list(call)
        assert events[-1].finished.usage.completion_tokens == 400, events[-1]


def main():
    with grpc_server() as (channel, _):
        checks.run_all(channel)
    checks.run(drain)
    checks.end(f"grpcio {grpc.__version__}")


if __name__ == "__main__":
    main()
