// The gRPC port as any client may speak it: keys, bounds, clients that are slow, dead or gone, and
// the end of a server.
#include "apps/console/limits.hpp"
#include "apps/server/client_names.hpp"
#include "net/status.hpp"
#include "tests/serve/grpc_client.hpp"
#include "tests/serve/live_fleet.hpp"
#include "tests/serve/live_server.hpp"
#include "tests/support/engine_fixture.hpp"

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::Settings;
namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace std::string_literals;

namespace {

constexpr const char* accepted =
    R"(paceline_grpc_requests_total{engine="0",model_name="demo",outcome="accepted"})";

Request request_of(int tokens) {
  Request request;
  request.prompt_tokens = {1, 2, 3};
  request.max_tokens = tokens;
  request.sampling.seed = 5;
  return request;
}

/// Log-probabilities make it long: a few hundred tokens are more than what is on its way holds.
Request long_request(int tokens) {
  Request request = request_of(tokens);
  request.logprobs = true;
  request.top_logprobs = 20;
  return request;
}

bool works(const LiveServer& server) {
  return GrpcClient(server.grpc_port()).generate(request_of(3)).status.ok();
}

/// A connection that no gRPC library speaks on.
class Bytes {
public:
  explicit Bytes(std::uint16_t port) : socket_(io_, asio::ip::tcp::v4()) {
    socket_.connect({asio::ip::address_v4::loopback(), port});
  }
  /// The server may have cut it off already.
  void send(const std::string& bytes) {
    boost::system::error_code cut_off;
    asio::write(socket_, asio::buffer(bytes), cut_off);
  }
  std::string read(std::size_t count) {
    std::string bytes(count, '\0');
    asio::read(socket_, asio::buffer(bytes));
    return bytes;
  }
  /// Reads until the server closes the connection.
  void read_to_end() {
    std::array<char, 4096> part{};
    boost::system::error_code ended;
    while (!ended)
      socket_.read_some(asio::buffer(part), ended);
  }
  asio::ip::tcp::socket& socket() { return socket_; }

private:
  asio::io_context io_;
  asio::ip::tcp::socket socket_;
};

// HTTP/2 as RFC 9113 has it: how a client begins, and frames.
const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string frame_of(char type, char flags, const std::string& body) {
  const auto size = body.size();
  return std::string{char(size >> 16), char(size >> 8), char(size), type, flags, 0, 0, 0, 0} + body;
}
const std::string greeting = preface + frame_of(4, 0, ""); // no settings of its own

} // namespace

TEST_CASE("the gRPC port has HTTP's keys, and asks everybody for them") {
  setenv("PACELINE_API_KEY", "first, second", 1);
  LiveServer server(scripted());
  unsetenv("PACELINE_API_KEY");
  for (const std::string wrong : {"", "firs", "firstly", "first, second"}) {
    const GrpcClient client(server.grpc_port(), wrong);
    v1::ModelsReply models;
    v1::TokenizeReply tokens;
    for (const grpc::Status& status : {client.generate(request_of(3)).status, client.models(models),
                                       client.tokenize({}, tokens)}) {
      CHECK(status.error_code() == grpc::StatusCode::UNAUTHENTICATED);
      CHECK(net::told_by(status).value().message == "there is no such API key");
    }
  }
  CHECK(GrpcClient(server.grpc_port(), "second").generate(request_of(3)).status.ok());
}

TEST_CASE(
    "what one key's holder has sent by gRPC is not cached for another's, nor salts for others") {
  setenv("PACELINE_API_KEY", "first, second", 1);
  LiveServer server(scripted());
  unsetenv("PACELINE_API_KEY");
  Request request = request_of(1);
  request.prompt_tokens.assign(40, 1);
  const auto cached = [&](const char* key, const std::string& salt = {}) {
    request.cache_salt = salt;
    return GrpcClient(server.grpc_port(), key).generate(request).end.value().usage.cached_tokens;
  };
  CHECK(cached("first") == 0);
  CHECK(cached("first") == 32);
  CHECK(cached("first", "salt") == 0);
  CHECK(cached("first", "salt") == 32);
  CHECK(cached("second") == 0);
}

TEST_CASE("one connection too many is closed, by the limit of both doors") {
  Settings settings;
  settings.max_connections = 1;
  LiveServer server(scripted(), settings);
  const GrpcClient first(server.grpc_port());
  CHECK(first.generate(request_of(3)).status.ok());
  CHECK(GrpcClient(server.grpc_port()).generate(request_of(3)).status.error_code() ==
        grpc::StatusCode::UNAVAILABLE);
  CHECK(server.ask("GET", "/health").status == 503);
}

TEST_CASE("what HTTP bounds is bounded by gRPC, too") {
  Settings settings;
  settings.max_body_bytes = 10'000;
  LiveServer server(scripted("sim:10ms"), settings);
  const GrpcClient client(server.grpc_port());
  for (const float bias : {101.0f, -1e30f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Request biased = request_of(3);
    biased.sampling.logit_bias = {{1, bias}};
    const auto refused = client.generate(biased);
    CHECK(refused.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    CHECK(refused.error.value().message.find("logit_bias") == 0);
  }
  Request banned = request_of(1);
  banned.sampling.logit_bias = {{1, -std::numeric_limits<float>::infinity()}, {2, -100.0f}};
  CHECK(client.generate(banned).status.ok());
  Request large = request_of(3);
  large.prompt_tokens.assign(20'000, 1);
  CHECK(client.generate(large).status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  grpc::ClientContext talkative;
  talkative.AddMetadata("x-long", std::string(2 * apps::limits::metadata_bytes, 'a'));
  v1::ModelsReply models;
  CHECK(client.stub().Models(&talkative, {}, &models).error_code() ==
        grpc::StatusCode::RESOURCE_EXHAUSTED);
  grpc::ClientContext packed;
  packed.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::TokenizeRequest text;
  text.set_prompt(std::string(1000, 'a'));
  v1::TokenizeReply tokens;
  const GrpcClient other(server.grpc_port()); // the first one's connection may have been closed
  CHECK(other.stub().Tokenize(&packed, text, &tokens).error_code() ==
        grpc::StatusCode::UNIMPLEMENTED);
}

TEST_CASE("a deadline of none at all by gRPC is no way around the server's own") {
  Settings settings;
  settings.request_timeout = 50ms;
  LiveServer server(scripted("sim:10ms"), settings);
  const GrpcClient client(server.grpc_port());
  Request late = request_of(60'000);
  for (const auto& deadline : {std::optional<std::chrono::milliseconds>(0ms), {1h}, {}}) {
    late.deadline = deadline;
    const auto ended = client.generate(late);
    REQUIRE(ended.end);
    CHECK(ended.end->reason == FinishReason::deadline);
  }
}

TEST_CASE("a connection may have as many calls as there are places, and a few besides") {
  Settings settings;
  settings.max_open = 7;
  LiveServer server(scripted(), settings);
  Bytes client(server.grpc_port());
  client.send(greeting);
  const std::string head = client.read(9);
  CHECK(head[3] == 4); // SETTINGS
  const std::string body = client.read(std::size_t(static_cast<unsigned char>(head[2])));
  int streams = -1; // setting 3
  for (std::size_t at = 0; at < body.size(); at += 6)
    if (body[at] == 0 && body[at + 1] == 3)
      streams = static_cast<unsigned char>(body[at + 5]);
  CHECK(streams == 7 + apps::limits::other_calls);
}

Request refused_request() {
  Request bad = request_of(3);
  bad.priority = 2'000'000; // which crosses, or nobody would see that it is too much
  return bad;
}

TEST_CASE("errors have the engine's code and hint, and a status that all clients know") {
  Settings settings;
  settings.max_open = 1;
  LiveServer server(scripted("sim:1ms"), settings);
  const GrpcClient client(server.grpc_port());
  const Request bad = refused_request();
  const auto refused = client.generate(bad);
  CHECK(refused.status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  const Error expected = apps::serve::for_clients(server.engine().submit(bad).error());
  CHECK(refused.error.value().text() == expected.text());
  CHECK(refused.status.error_message() == expected.text());
  const auto running = client.start(request_of(60'000));
  CHECK(!running->accepted().empty());
  const auto crowded = client.generate(request_of(1));
  CHECK(crowded.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(crowded.error.value().code == ErrorCode::overloaded);
}

TEST_CASE("who is told of an answer's end by gRPC may ask again at once") {
  Settings settings;
  settings.max_open = 1;
  LiveServer server(scripted("sim:10us"), settings);
  const GrpcClient client(server.grpc_port());
  const Request bad = refused_request();
  for (int i = 0; i < 200; ++i) { // whichever thread is first
    CHECK(client.generate(bad).status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    CHECK(client.generate(request_of(1)).status.ok());
  }
}

TEST_CASE("requests by gRPC side by side, cancelled or not, end each by itself") {
  LiveServer server(scripted("sim:100us"));
  const GrpcClient client(server.grpc_port());
  const auto endless = client.start(request_of(60'000));
  const auto whole = client.start(request_of(40));
  CHECK(endless->accepted() != whole->accepted());
  CHECK(whole->finish().ok());
  CHECK(whole->text == server.engine().complete(request_of(40)).value().text);
  CHECK(whole->end.value().usage.completion_tokens == 40);
  endless->cancel();
  CHECK(endless->finish().error_code() == grpc::StatusCode::CANCELLED);
  grpc::ClientContext short_of_time; // a deadline of gRPC's own ends it, too
  short_of_time.set_deadline(std::chrono::system_clock::now() + 20ms);
  v1::GenerateRequest request;
  request.add_prompt_tokens(1);
  const auto late = client.stub().Generate(&short_of_time, request);
  v1::GenerateEvent event;
  while (late->Read(&event)) {
  }
  late->Finish(); // as a deadline, by whichever side noticed first
  server.await_idle();
}

TEST_CASE("the models and the tokens of a text are told by gRPC") {
  LiveServer server;
  const GrpcClient client(server.grpc_port());
  v1::ModelsReply models;
  REQUIRE(client.models(models).ok());
  REQUIRE(models.models_size() == 1);
  CHECK(models.models(0).name() == "demo");
  CHECK(models.models(0).max_model_len() == server.engine().target().max_model_len);
  CHECK(models.ready());
  CHECK(models.healthy());
  v1::TokenizeRequest request;
  request.set_prompt("def fibonacci(n):");
  v1::TokenizeReply reply;
  REQUIRE(client.tokenize(request, reply).ok());
  CHECK(std::vector<TokenId>(reply.tokens().begin(), reply.tokens().end()) ==
        server.engine().tokenize("def fibonacci(n):"));
  request.set_model("another");
  CHECK(client.tokenize(request, reply).error_code() == grpc::StatusCode::NOT_FOUND);
}

TEST_CASE("what a text's tokens take counts before they are made") {
  Settings settings;
  settings.grpc_port = 0;
  settings.max_request_memory = std::size_t(2) << 20;
  LiveServer server(scripted(), settings);
  const GrpcClient client(server.grpc_port());
  v1::TokenizeRequest request;
  v1::TokenizeReply reply;
  request.set_prompt(std::string(std::size_t(300) << 10, 'a'));
  CHECK(client.tokenize(request, reply).error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  request.set_prompt(std::string(std::size_t(100) << 10, 'a'));
  CHECK(client.tokenize(request, reply).ok());
}

TEST_CASE("several models are asked for by name through the gRPC port") {
  Settings settings;
  settings.grpc_port = 0;
  LiveFleet fleet(fleet_plan(2, 2, {{0, 1}}), settings);
  const GrpcClient client(fleet.grpc_port());
  const auto a = client.generate(request_of(20), "a");
  const auto b = client.generate(request_of(20), "b");
  REQUIRE(a.status.ok());
  REQUIRE(b.status.ok());
  CHECK(a.tokens != b.tokens);
  CHECK(client.generate(request_of(20), "c").status.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(client.generate(request_of(20)).status.error_code() ==
        grpc::StatusCode::INVALID_ARGUMENT); // which one?
}

TEST_CASE("a slow reader by gRPC gets everything, and others do not wait for it") {
  Settings settings;
  settings.write_timeout = 1h; // slow is not dead, however slow this machine is
  LiveServer server(scripted(), settings);
  constexpr int many = 3000;
  const std::string expected = server.engine().complete(request_of(many)).value().text;
  const GrpcClient client(server.grpc_port());
  const auto slow = client.start(long_request(many));
  CHECK(!slow->accepted().empty());
  for (int i = 0; i < 20; ++i) // on the same connection, too
    CHECK((works(server) && client.generate(request_of(3)).status.ok()));
  // It was generated to its end, though nobody reads: nothing of the engine waits for a socket.
  while (server.engine().metrics().running > 0)
    std::this_thread::yield();
  CHECK(slow->finish().ok());
  CHECK((slow->text == expected)); // too long to be shown
}

TEST_CASE("a client by gRPC that reads nothing is cut off, and its request cancelled") {
  Settings settings;
  settings.write_timeout = 100ms;
  LiveServer server(scripted(), settings);
  const GrpcClient client(server.grpc_port());
  const auto dead = client.start(long_request(60'000));
  CHECK(!dead->accepted().empty());
  server.await_idle();
  CHECK(!dead->finish().ok());
  CHECK(client.generate(request_of(3)).status.ok()); // the connection lives
}

TEST_CASE("clients that leave in mid-stream by gRPC leave nothing behind") {
  LiveServer server(scripted("sim:100us"));
  constexpr int times = 100;
  for (int i = 0; i < times; ++i) {
    const GrpcClient client(server.grpc_port());
    const auto one = client.start(request_of(60'000));
    const auto other = client.start(request_of(60'000));
    if (i % 3 >= 1)
      CHECK(!one->accepted().empty());
    if (i % 3 >= 2)
      CHECK(one->next());
  }
  server.await_idle();
  CHECK(server.engine().metrics().kv_pages_used == 0);
  CHECK(server.engine().metrics().finished == std::uint64_t(server.metric(accepted)));
  CHECK(server.metric(accepted) > times / 2); // some left before they were heard
  CHECK(
      server.metric(
          R"(vllm:request_success_total{engine="0",model_name="demo",finished_reason="abort"})") ==
      server.metric(accepted));
  while (server.metric("paceline_grpc_connections") > 0)
    std::this_thread::yield();
}

TEST_CASE("who says nothing is cut off by either door, before a greeting or behind one") {
  Settings settings;
  settings.idle_timeout = 20ms;
  settings.receive_timeout = 20ms;
  LiveServer server(scripted("sim:1ms"), settings);
  HttpClient idle(server.port());
  CHECK(idle.ended());
  Bytes silent(server.grpc_port());
  silent.read_to_end();
  Bytes half(server.grpc_port());
  half.send(preface.substr(0, 10));
  half.read_to_end();
  Bytes deaf(server.grpc_port());
  deaf.send(greeting); // and answers no ping
  deaf.read_to_end();
  while (server.metric("paceline_grpc_connections") > 0)
    std::this_thread::yield();
}

TEST_CASE("a connection that is pinged all the time is closed") {
  LiveServer server(scripted());
  Bytes flood(server.grpc_port());
  flood.send(greeting);
  for (int i = 0; i < 100; ++i)
    flood.send(frame_of(6, 0, "12345678"));
  flood.read_to_end();
  CHECK(works(server));
}

TEST_CASE("clients that vanish without a word leave nothing behind, by either door") {
  Settings settings;
  settings.idle_timeout = 1s; // They speak before, however busy the machine.
  LiveServer server(scripted("sim:1ms"), settings);
  HttpClient http(server.port());
  http.send("POST", "/v1/completions", R"({"prompt": [1], "max_tokens": 60000, "stream": true})");
  CHECK(http.read_head().status == 200);
  Bytes grpc(server.grpc_port());
  grpc.send(greeting);
  grpc.read(9);
  if (!vanish(http.socket()) || !vanish(grpc.socket())) {
    MESSAGE("not permitted here");
    return;
  }
  server.await_idle(); // what is written into the void comes back as a reset, or nobody speaks
  while (server.metric("paceline_http_connections") > 1 ||
         server.metric("paceline_grpc_connections") > 0)
    std::this_thread::yield();
}

TEST_CASE("a drain lets what was accepted by gRPC finish, and refuses what is new") {
  Settings settings;
  settings.drain_timeout = 1h;
  LiveServer server(scripted("sim:1ms"), settings);
  HttpClient endless(server.port()); // while it runs, there is a server to be asked
  endless.send("POST", "/v1/completions",
               R"({"prompt": [1], "max_tokens": 60000, "stream": true})");
  CHECK(endless.read_head().status == 200);
  const GrpcClient client(server.grpc_port());
  const auto running = client.start(request_of(60));
  CHECK(!running->accepted().empty());
  server.drain();
  v1::ModelsReply models;
  do
    REQUIRE(client.models(models).ok());
  while (models.ready());
  CHECK(models.healthy());
  const auto refused = client.generate(request_of(1));
  CHECK(refused.status.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(refused.error.value().text() == "the server is shutting down: ask another one");
  CHECK(running->finish().ok());
  CHECK(running->end.value().reason == FinishReason::length);
  endless.close();
  server.join();
  CHECK_THROWS(Bytes(server.grpc_port()));
}

TEST_CASE("what does not finish in a drain's time is told so by gRPC") {
  Settings settings;
  settings.drain_timeout = 20ms;
  LiveServer server(scripted("sim:1ms"), settings);
  const GrpcClient client(server.grpc_port());
  const auto running = client.start(request_of(60'000));
  CHECK(!running->accepted().empty());
  server.drain();
  const grpc::Status status = running->finish();
  CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
  REQUIRE(running->end);
  CHECK(running->end->reason == FinishReason::error);
  CHECK(running->end->error.value().text() == "the server is shutting down: ask another one");
  server.join();
}

TEST_CASE("a thousand hostile clients of the gRPC port are cut off, and the server lives") {
  LiveServer server(scripted());
  std::mt19937_64 random(1);
  const auto below = [&](std::size_t bound) { return std::size_t(random() % bound); };
  const auto noise = [&](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i)
      text += char(random());
    return text;
  };
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    Bytes client(server.grpc_port());
    std::string bytes = below(4) == 0 ? noise(1 + below(3000)) : greeting;
    for (std::size_t frames = below(5); frames > 0; --frames)
      bytes += frame_of(char(below(12)), char(below(64)), noise(below(300)));
    client.send(bytes);
    boost::system::error_code gone;
    client.socket().shutdown(asio::ip::tcp::socket::shutdown_send, gone);
    client.read_to_end();
    if (i % 100 == 0)
      CHECK(works(server));
  }
  server.await_idle();
  CHECK(server.engine().metrics().kv_pages_used == 0);
  CHECK(works(server));
}

TEST_CASE("requests of any values by gRPC are each told how they end, and the server lives") {
  LiveServer server(scripted());
  const GrpcClient client(server.grpc_port());
  std::mt19937_64 random(1);
  const auto below = [&](std::size_t bound) { return int(random() % bound); };
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    Request request = long_request(below(50));
    request.stop = {std::string(std::size_t(below(20)), 'a'), ""};
    request.sampling.logit_bias = {{TokenId(random()), 1.0f}};
    request.sampling.temperature = float(below(3)) - 1;
    request.sampling.allowed_token_ids.assign(std::size_t(below(3)), TokenId(random() % 20) - 3);
    request.priority = below(3'000'000) - 1'500'000;
    if (below(2) == 0)
      request.deadline = std::chrono::milliseconds(below(3));
    const auto outcome = client.generate(request);
    CHECK((outcome.end || outcome.error));
  }
  server.await_idle();
  CHECK(works(server));
}
