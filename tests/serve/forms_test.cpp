// Answers in a form, through both doors.
#include "tests/serve/grpc_client.hpp"
#include "tests/serve/live_server.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <doctest/doctest.h>
#include <functional>
#include <future>

using namespace paceline;
using namespace paceline::testing;
namespace json = boost::json;
using namespace std::chrono_literals;

namespace {

constexpr const char* truth = R"({"type": "object", "properties": {"is": {"type": "boolean"}},
                                  "required": ["is"]})";

Request request_of(Constraint form) {
  Request request;
  request.prompt = "def is_true():\n    return ";
  request.max_tokens = 60;
  request.sampling.seed = 3;
  request.constraint = std::move(form);
  return request;
}

json::object body_of(const json::object& field) {
  json::object body{{"prompt", "def is_true():\n    return "}, {"max_tokens", 60}, {"seed", 3}};
  body.insert(field.begin(), field.end());
  return body;
}

bool is_truth(const std::string& text) {
  boost::system::error_code error;
  const auto value = json::parse(text, error);
  return !error && value.is_object() && value.as_object().size() == 1 && value.at("is").is_bool();
}

/// Takes all of the time that a form may take to compile.
std::string slow_expression() {
  std::string text;
  while (text.size() < 6000)
    text += ".*";
  return text;
}

} // namespace

TEST_CASE("an answer has the form that was asked for, over HTTP and gRPC") {
  LiveServer server;
  const auto reply = server.post("/v1/completions", body_of({{"guided_json", json::parse(truth)}}));
  const auto text = std::string(reply.at("choices").at(0).at("text").as_string());
  CHECK_MESSAGE(is_truth(text), text);
  const auto remote = GrpcClient(server.grpc_port())
                          .generate(request_of({Constraint::Kind::json_schema, truth, {}}));
  REQUIRE(remote.status.ok());
  CHECK(remote.text == text);
}

TEST_CASE("a form that is none is refused with what is wrong, over HTTP and gRPC") {
  LiveServer server;
  const std::string unheld = R"({"type": "array", "uniqueItems": true})";
  const auto reply = server.ask("POST", "/v1/completions",
                                json::serialize(body_of({{"guided_json", json::parse(unheld)}})));
  CHECK(reply.status == 400);
  CHECK(reply.json().at("error").at("param") == "guided_json");
  CHECK(reply.body.find("'uniqueItems'") != std::string::npos);
  const auto remote = GrpcClient(server.grpc_port())
                          .generate(request_of({Constraint::Kind::json_schema, unheld, {}}));
  REQUIRE(remote.error);
  CHECK(remote.error->message.find("'uniqueItems'") != std::string::npos);
}

TEST_CASE("a form that takes long to compile holds up nobody else, at either door") {
  LiveServer server;
  const std::string slow = slow_expression();
  const auto over_http = [&server, &slow] {
    return server.ask("POST", "/v1/completions", json::serialize(body_of({{"regex", slow}})))
               .status == 400;
  };
  const auto over_grpc = [&server, &slow] {
    return !GrpcClient(server.grpc_port())
                .generate(request_of({Constraint::Kind::regex, slow + "a", {}}))
                .status.ok();
  };
  for (const std::function<bool()>& asks : {std::function<bool()>(over_http), {over_grpc}}) {
    auto refused = std::async(std::launch::async, asks);
    int meanwhile = 0;
    while (refused.wait_for(0s) != std::future_status::ready)
      meanwhile += server.ask("GET", "/health").status == 200;
    CHECK(refused.get());
    CHECK(meanwhile > 20);
  }
}
