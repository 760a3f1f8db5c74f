// Pairs as users put them together: models of different families, padded vocabularies, a draft
// that reads less far than its target, a target with a sliding window.
#include "tests/engine/tiny_model.hpp"
#include "tests/support/engine_fixture.hpp"

#include <boost/json.hpp>
#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace paceline;
using namespace paceline::testing;
namespace json = boost::json;

namespace {

EngineOptions options_of(const TinyModel& target, const TinyModel& draft) {
  EngineOptions options;
  options.target = target.path();
  options.drafters = {draft.path()};
  options.devices = {"cpu"};
  options.threads = 1;
  options.page_tokens = 4;
  options.window = 3;
  return options;
}

Request request_to_pair(int prompt, int tokens, bool greedy) {
  Request request;
  for (int i = 0; i < prompt; ++i)
    request.prompt_tokens.push_back(TokenId((i * 37 + i * i) % tiny_vocabulary));
  request.max_tokens = tokens;
  request.ignore_eos = true;
  request.sampling.temperature = greedy ? 0.0f : 1.0f;
  request.sampling.seed = 5;
  request.verify = VerifyRule::coupled;
  return request;
}

std::vector<Answer> answers_of(EngineOptions options, SpeculationMode mode, int tokens) {
  options.speculation = mode;
  Engine engine = open_engine(options);
  return {ask(engine, request_to_pair(9, tokens, true)),
          ask(engine, request_to_pair(20, tokens, false))};
}

void check_same(const EngineOptions& options, int tokens) {
  const auto plain = answers_of(options, SpeculationMode::off, tokens);
  EngineOptions with_tree = options;
  with_tree.tree_rows = 12;
  for (const auto& [mode, with] : {std::pair(SpeculationMode::sync, options),
                                   {SpeculationMode::sync, with_tree},
                                   {SpeculationMode::overlap, options}}) {
    const auto answers = answers_of(with, mode, tokens);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CHECK(answers[i].tokens == plain[i].tokens);
      CHECK(int(answers[i].tokens.size()) == tokens);
      if (mode == SpeculationMode::sync) // who does not wait may find nothing drafted
        CHECK(answers[i].end().speculation.judged > 0);
      for (const TokenId token : answers[i].tokens)
        CHECK(token < tiny_vocabulary);
    }
  }
}

} // namespace

TEST_CASE("models of different families with one vocabulary make a pair") {
  const TinyModel qwen("Qwen 3");
  const TinyModel gemma("Gemma 3");
  const TinyModel llama("Llama 2, TinyLlama");
  check_same(options_of(qwen, llama), 24);
  check_same(options_of(gemma, qwen), 24);
}

TEST_CASE("a vocabulary padded in either model changes nothing") {
  const TinyModel plain("Qwen 3");
  const TinyModel padded("Qwen 3", {{"vocab_size", 192}});
  const TinyModel draft("Llama 2, TinyLlama");
  const TinyModel padded_draft("Llama 2, TinyLlama", {{"vocab_size", 176}});
  const auto expected = answers_of(options_of(plain, draft), SpeculationMode::off, 16);
  for (const auto& [target, with] :
       {std::pair(&padded, &draft), {&plain, &padded_draft}, {&padded, &padded_draft}}) {
    check_same(options_of(*target, *with), 16);
    const auto answers = answers_of(options_of(*target, *with), SpeculationMode::sync, 16);
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(answers[i].tokens == expected[i].tokens);
  }
}

TEST_CASE("a draft that reads less far than its target is left out beyond") {
  const TinyModel target("Qwen 3");
  const TinyModel draft("Llama 2, TinyLlama", {{"max_position_embeddings", 48}});
  check_same(options_of(target, draft), 80);
  const auto answers = answers_of(options_of(target, draft), SpeculationMode::sync, 80);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::size_t prompt = i == 0 ? 9 : 20;
    for (std::size_t j = 0; j < answers[i].sources.size(); ++j) // its last logits draw position 48
      CHECK((prompt + j <= 48 || answers[i].sources[j] == TokenSource::target));
  }
  Engine engine = open_engine(options_of(target, draft));
  CHECK(engine.draft_model()->max_model_len == 48);
  const Answer late =
      ask(engine, request_to_pair(60, 8, true)); // a prompt that it cannot read at all
  CHECK(late.tokens.size() == 8);
  CHECK(late.end().speculation.drafted == 0);
  CHECK(late.end().speculation.draft_context_exceeded == 48);
  CHECK(ask(engine, request_to_pair(9, 30, true)).end().speculation.draft_context_exceeded == 0);
}

TEST_CASE("a draft with another tokenizer makes a pair, and says what both have") {
  const TinyModel target("Qwen 3", {}, tokenizer_json(0, {"ab", "cd", "ef"}));
  const TinyModel draft("Llama 2, TinyLlama", {}, tokenizer_json(7, {"bc", "de"}));
  check_same(options_of(target, draft), 24);
  const auto answers = answers_of(options_of(target, draft), SpeculationMode::sync, 60);
  for (const Answer& answer : answers)
    for (std::size_t i = 0; i < answer.tokens.size(); ++i)
      if (answer.sources[i] != TokenSource::target)
        CHECK((answer.tokens[i] < 94 || answer.tokens[i] > 96)); // the merges are the target's own
}

TEST_CASE("a draft with another tokenizer may have several devices") {
  const TinyModel target("Qwen 3", {}, tokenizer_json(0, {"ab", "cd", "ef"}));
  const TinyModel draft("Llama 2, TinyLlama", {}, tokenizer_json(7, {"bc", "de"}));
  for (const int shards : {1, 2}) {
    EngineOptions options = options_of(target, draft);
    options.draft_devices = {"cpu:0", "cpu:1"};
    options.draft_tensor_parallel_size = shards;
    check_same(options, 24);
  }
}

TEST_CASE("a draft with another tokenizer reads a long prompt as any does") {
  const TinyModel target("Qwen 3", {}, tokenizer_json(0, {"ab"}));
  const TinyModel draft("Llama 2, TinyLlama", {}, tokenizer_json(3));
  EngineOptions options = options_of(target, draft);
  options.speculation = SpeculationMode::sync;
  Engine engine = open_engine(options);
  Request request = request_to_pair(9, 12, true);
  request.prompt_tokens.assign(50, 94); // "ab", which takes two of the draft's
  const Answer answer = ask(engine, request);
  CHECK(answer.end().speculation.judged > 0);
  options.speculation = SpeculationMode::off;
  Engine plain = open_engine(options);
  CHECK(answer.tokens == ask(plain, request).tokens);
}

TEST_CASE("a draft that has hardly one of the target's tokens is refused with the figure") {
  const TinyModel target("Qwen 3");
  std::string other = tokenizer_json();
  for (std::size_t at = 0; (at = other.find("\"<", at)) != std::string::npos; at += 2)
    other.insert(at + 1, "~");
  const TinyModel similar("Llama 2, TinyLlama", {}, other); // 94 of 160
  CHECK(Engine::open(options_of(target, similar)));
  for (char c = 'A'; c <= 'z'; ++c)
    if (const auto at = other.find(fmt::format("\"{}\":", c)); at != std::string::npos && c != '\\')
      other.insert(at + 1, "~");
  const TinyModel stranger("Llama 2, TinyLlama", {}, other);
  const auto refused = Engine::open(options_of(target, stranger));
  REQUIRE(!refused);
  CHECK(refused.error().message.find("% of the target's tokens") != std::string::npos);
}

TEST_CASE("a target that looks back through a window verifies as it decodes") {
  check_same(options_of(TinyModel("Mistral with a window"), TinyModel("Llama 2, TinyLlama")), 90);
}

namespace {

/// What the engine asks for when it is given too little.
std::size_t least_kv_memory(EngineOptions options) {
  options.kv_memory_bytes = 1;
  const auto engine = Engine::open(options);
  REQUIRE_FALSE(engine);
  const std::string mend = engine.error().text();
  return std::stoull(mend.substr(mend.find("at least ") + 9));
}

} // namespace

TEST_CASE("pages behind the target's window come back, and serve others") {
  const TinyModel target("Mistral with a window", {{"max_position_embeddings", 640}});
  const TinyModel draft("Llama 2, TinyLlama", {{"max_position_embeddings", 640}});
  EngineOptions options = options_of(target, draft);
  options.prefill_chunk = 16;
  options.max_num_seqs = 3;
  const std::vector<Request> requests{request_to_pair(12, 600, true),
                                      request_to_pair(590, 40, false),
                                      request_to_pair(40, 560, false)};
  for (const SpeculationMode mode : {SpeculationMode::off, SpeculationMode::overlap}) {
    CAPTURE(std::string(to_string(mode)));
    options.speculation = mode;
    options.kv_memory_bytes = std::size_t(1) << 28;
    Engine roomy = open_engine(options);
    const std::vector<Answer> expected = ask_all(roomy, requests);
    // One sequence's worth for all three: what comes back is written by another.
    options.kv_memory_bytes = least_kv_memory(options);
    Engine tight = open_engine(options);
    const std::size_t both = mode == SpeculationMode::off ? 1 : 2;
    CHECK(tight.metrics().kv_pages_total < both * 640 / 4);
    const std::vector<Answer> answers = ask_all(tight, requests);
    for (std::size_t i = 0; i < requests.size(); ++i)
      CHECK(answers[i].tokens == expected[i].tokens);
  }
}

TEST_CASE("a prompt longer than the window is kept for others before its pages go") {
  const TinyModel target("Mistral with a window", {{"max_position_embeddings", 640}});
  EngineOptions options = options_of(target, target);
  options.prefill_chunk = 16;
  options.kv_memory_bytes = std::size_t(1) << 28;
  Engine engine = open_engine(options);
  const Answer first = ask(engine, request_to_pair(590, 20, false));
  const Answer again = ask(engine, request_to_pair(590, 20, false));
  CHECK(again.tokens == first.tokens);
  CHECK(first.end().usage.cached_tokens == 0);
  CHECK(again.end().usage.cached_tokens == 588);
}
