// Answers that a model gives under JSON schemas, through the whole engine, drafts included: one
// schema a line of standard input, and for each a line: {"texts": [...], "cut": how many did not
// end by themselves}, or {"error": text}. tools/reference/schema_check.py has another program judge
// them.
#include "paceline/engine.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace paceline;
namespace json = boost::json;

constexpr float temperatures[] = {0, 0.8f, 1.5f};
constexpr int tokens_max = 120;

Request request_for(const std::string& schema, int number) {
  Request request;
  request.prompt = "example = ";
  request.max_tokens = tokens_max;
  request.sampling.temperature = temperatures[std::size_t(number) % std::size(temperatures)];
  request.sampling.seed = std::uint64_t(number);
  request.verify = number % 2 ? VerifyRule::rejection : VerifyRule::coupled;
  request.constraint = Constraint{Constraint::Kind::json_schema, schema, {}};
  return request;
}

json::object answers(Engine& engine, const std::string& schema, int count) {
  std::vector<Stream> streams;
  for (int number = 0; number < count; ++number) {
    auto stream = engine.submit(request_for(schema, number));
    if (!stream)
      return {{"error", stream.error().text()}};
    streams.push_back(std::move(*stream));
  }
  json::array texts;
  int cut = 0;
  for (Stream& stream : streams) {
    Completion answer;
    while (auto event = stream.next())
      if (const auto* delta = std::get_if<Delta>(&*event))
        answer.add(*delta);
      else if (auto* end = std::get_if<Finished>(&*event))
        answer.end = std::move(*end);
    if (answer.end.error)
      return {{"error", answer.end.error->text()}};
    if (answer.end.reason == FinishReason::stop)
      texts.emplace_back(answer.text);
    else
      ++cut;
  }
  return {{"texts", texts}, {"cut", cut}};
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: schema_answers MODEL DRAFT ANSWERS <SCHEMAS\n");
    return 2;
  }
  EngineOptions options;
  options.target = argv[1];
  options.drafters = {argv[2]};
  auto engine = Engine::open(std::move(options));
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().text().c_str());
    return 1;
  }
  for (std::string schema; std::getline(std::cin, schema);)
    std::cout << json::serialize(answers(*engine, schema, std::atoi(argv[3]))) << std::endl;
}
