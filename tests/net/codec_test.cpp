// The protocol over TCP: what is written is read again, and what is not of it is refused.
#include "net/codec.hpp"
#include "net/framing.hpp"
#include "net/limits.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace std::chrono_literals;

namespace {

/// Frames in a stream, read in pieces of so many bytes.
std::vector<std::string> frames_of(const std::string& stream, std::size_t piece) {
  net::FrameReader reader(1 << 20);
  std::vector<std::string> frames;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    reader.feed(std::string_view(stream).substr(at, piece));
    for (;;) {
      const auto frame = reader.next();
      REQUIRE(frame.has_value());
      if (!*frame)
        break;
      frames.emplace_back(**frame);
    }
  }
  CHECK(!reader.amid());
  return frames;
}

template <class T, class Message>
T again(const Message& message, Result<Message> (*read)(std::string_view)) {
  std::string stream;
  net::append(stream, message);
  const auto frames = frames_of(stream, 3);
  REQUIRE(frames.size() == 1);
  auto back = read(frames.front());
  REQUIRE(back.has_value());
  REQUIRE(std::holds_alternative<T>(*back));
  return std::get<T>(std::move(*back));
}

template <class T>
T to_server(const T& message) {
  return again<T, net::ToServer>(message, net::read_to_server);
}
template <class T>
T to_client(const T& message) {
  return again<T, net::ToClient>(message, net::read_to_client);
}
template <class T>
T event_again(const T& event) {
  const auto back = to_client(net::Happened{7, event});
  CHECK(back.number == 7);
  REQUIRE(std::holds_alternative<T>(back.event));
  return std::get<T>(back.event);
}

/// Every field set to something of its own.
Request full_request() {
  Request request;
  request.prompt = "say \xff\xfe";
  request.prompt_tokens = {5, 0, 2'000'000'000};
  request.max_tokens = 0;
  request.stop = {"a", "\xf0\x28"};
  request.ignore_eos = true;
  request.stop_token_ids = {5, 6};
  request.sampling.temperature = 0.5f;
  request.sampling.top_k = 3;
  request.sampling.top_p = 0.25f;
  request.sampling.min_p = 0.125f;
  request.sampling.repetition_penalty = 1.5f;
  request.sampling.presence_penalty = -1.5f;
  request.sampling.frequency_penalty = 1.75f;
  request.sampling.logit_bias = {{3, -100.0f}, {4, 2.5f}};
  request.sampling.seed = ~0ULL;
  request.sampling.choice = 9;
  request.speculation = SpeculationMode::off;
  request.window = 4;
  request.drafter = "suffix";
  request.add_special_tokens = false;
  request.parse_special_tokens = true;
  request.verify = VerifyRule::match;
  request.logprobs = true;
  request.top_logprobs = 5;
  request.prompt_logprobs = true;
  request.logprobs_mode = LogprobsMode::processed;
  request.deadline = 1234ms;
  return request;
}

void check_same(const Sampling& a, const Sampling& b) {
  CHECK(a.temperature == b.temperature);
  CHECK(a.top_k == b.top_k);
  CHECK(a.top_p == b.top_p);
  CHECK(a.min_p == b.min_p);
  CHECK(a.repetition_penalty == b.repetition_penalty);
  CHECK(a.presence_penalty == b.presence_penalty);
  CHECK(a.frequency_penalty == b.frequency_penalty);
  CHECK((a.logit_bias == b.logit_bias));
  CHECK(a.seed == b.seed);
  CHECK(a.choice == b.choice);
}

void check_same(const Request& a, const Request& b) {
  CHECK(a.prompt == b.prompt);
  CHECK(a.prompt_tokens == b.prompt_tokens);
  CHECK(a.max_tokens == b.max_tokens);
  CHECK(a.stop == b.stop);
  CHECK(a.ignore_eos == b.ignore_eos);
  CHECK(a.stop_token_ids == b.stop_token_ids);
  check_same(a.sampling, b.sampling);
  CHECK((a.speculation == b.speculation));
  CHECK(a.window == b.window);
  CHECK(a.drafter == b.drafter);
  CHECK(a.add_special_tokens == b.add_special_tokens);
  CHECK(a.parse_special_tokens == b.parse_special_tokens);
  CHECK((a.verify == b.verify));
  CHECK(a.logprobs == b.logprobs);
  CHECK(a.top_logprobs == b.top_logprobs);
  CHECK(a.prompt_logprobs == b.prompt_logprobs);
  CHECK((a.logprobs_mode == b.logprobs_mode));
  CHECK((a.deadline == b.deadline));
}

void check_same(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].token == b[i].token);
    CHECK(a[i].logprob == b[i].logprob);
    CHECK((a[i].top == b[i].top));
  }
}

const std::vector<TokenLogprob> scores{
    {1, -0.5f, {{1, -0.5f}, {2, -1.0f}}}, {3, -2.0f, {}}, {4, -3.0f, {{9, -0.25f}}}};

} // namespace

TEST_CASE("requests come back as they were, with everything and with nothing set") {
  for (const Request& request : {full_request(), Request()}) {
    const auto back = to_server(net::Submit{3, request});
    CHECK(back.number == 3);
    check_same(back.request, request);
  }
}

TEST_CASE("events come back as they were") {
  const Delta delta =
      event_again(Delta{{1, 3, 4},
                        {TokenSource::target, TokenSource::draft, TokenSource::lookahead},
                        "text \xff",
                        scores});
  CHECK(delta.tokens == std::vector<TokenId>{1, 3, 4});
  CHECK((delta.sources ==
         std::vector{TokenSource::target, TokenSource::draft, TokenSource::lookahead}));
  CHECK(delta.text == "text \xff");
  check_same(delta.logprobs, scores);
  const auto prompt = event_again(PromptLogprobs{{7, 8, 9}, scores});
  CHECK(prompt.tokens == std::vector<TokenId>{7, 8, 9});
  check_same(prompt.logprobs, scores);
}

TEST_CASE("ends come back as they were") {
  Finished end;
  end.reason = FinishReason::error;
  end.error = Error{ErrorCode::out_of_memory, "no room", "make some"};
  end.stop_match = "\n\n";
  end.stop_token = 0;
  end.seed = ~0ULL - 1;
  end.usage = {1, 2, 3};
  end.speculation = {SpeculationMode::sync,
                     VerifyRule::coupled,
                     4,
                     5,
                     6,
                     7,
                     8,
                     9,
                     10,
                     11,
                     12,
                     0.5,
                     13,
                     true,
                     false,
                     0,
                     {{"suffix", 14, 15}, {"model", 16, 17}}};
  end.timing = {0.25, 0.5, 0.75, 1.5};
  end.reproducible = false;
  const Finished back = event_again(end);
  CHECK((back.reason == end.reason));
  REQUIRE(back.error.has_value());
  CHECK((back.error->code == end.error->code));
  CHECK(back.error->text() == end.error->text());
  CHECK(back.stop_match == end.stop_match);
  CHECK(back.stop_token == end.stop_token);
  CHECK(back.seed == end.seed);
  CHECK(back.usage.prompt_tokens == 1);
  CHECK(back.usage.completion_tokens == 2);
  CHECK(back.usage.cached_tokens == 3);
  const SpeculationStats& stats = back.speculation;
  CHECK((stats.mode == SpeculationMode::sync));
  CHECK((stats.verify == VerifyRule::coupled));
  CHECK(std::vector<std::uint64_t>{std::uint64_t(stats.window), stats.drafted, stats.forked,
                                   stats.judged, stats.accepted, stats.rounds, stats.lookahead_hits,
                                   stats.fork_hits, stats.lookahead_rounds,
                                   std::uint64_t(stats.draft_context_exceeded)} ==
        std::vector<std::uint64_t>{4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
  CHECK(stats.overlap_ratio == 0.5);
  CHECK(stats.draft_left_out);
  REQUIRE(stats.drafters.size() == 2);
  CHECK(stats.drafters[0].name == "suffix");
  CHECK(stats.drafters[1].judged == 16);
  CHECK(stats.drafters[1].accepted == 17);
  CHECK(back.timing.queue_seconds == 0.25);
  CHECK(back.timing.time_to_first_token_seconds == 0.5);
  CHECK(back.timing.decode_seconds == 0.75);
  CHECK(back.timing.total_seconds == 1.5);
  CHECK(!back.reproducible);
}

TEST_CASE("every code, reason, mode and rule has a number of its own") {
  for (int i = 0; i <= int(ErrorCode::internal); ++i)
    CHECK(int(to_client(net::Failure{1, {ErrorCode(i), "", ""}}).error.code) == i);
  for (int i = 0; i <= int(FinishReason::error); ++i) {
    Finished end;
    end.reason = FinishReason(i);
    CHECK(int(event_again(end).reason) == i);
  }
  for (int i = 0; i <= int(SpeculationMode::automatic); ++i) {
    net::Submit submit{1, {}};
    submit.request.speculation = SpeculationMode(i);
    submit.request.verify = VerifyRule(i); // as many
    const auto back = to_server(submit).request;
    CHECK(int(*back.speculation) == i);
    CHECK(int(back.verify) == i);
  }
}

TEST_CASE("the rest comes back too") {
  const auto hello = to_server(net::Hello{1, 3, "key", "me"});
  CHECK(hello.version_min == 1);
  CHECK(hello.version_max == 3);
  CHECK(hello.api_key == "key");
  CHECK(hello.client == "me");
  CHECK(to_server(net::Cancel{~0ULL}).number == ~0ULL);
  CHECK(to_server(net::Ping{8}).number == 8);
  const auto welcome = to_client(net::Welcome{1, "server", "model", 75s, 1 << 24, true});
  CHECK(welcome.version == 1);
  CHECK(welcome.server == "server");
  CHECK(welcome.model == "model");
  CHECK((welcome.idle == 75s));
  CHECK(welcome.frame_bytes_max == 1 << 24);
  CHECK(welcome.ready);
  CHECK(to_client(net::Accepted{4}).number == 4);
  const auto pong = to_client(net::Pong{5, false, true});
  CHECK(pong.number == 5);
  CHECK(!pong.ready);
  CHECK(pong.healthy);
  to_client(net::Draining{});
}

TEST_CASE("a stream is taken apart wherever it is cut") {
  std::string stream;
  std::vector<std::string> expected;
  for (const std::size_t size : {0, 1, 127, 128, 300, 20'000}) {
    expected.emplace_back(size, char('a' + size % 26));
    net::append_frame(stream, expected.back());
  }
  for (const std::size_t piece : {1, 2, 7, 129, 4096, 1 << 20})
    CHECK((frames_of(stream, piece) == expected));
}

TEST_CASE("a frame beyond the limit is refused when its length is known") {
  for (const std::string& begin : {std::string("\xe9\x07"), std::string("\xff\xff\xff\xff\xff\xff"),
                                   std::string("\x80\x80\x80\x80\x80\x00", 6)}) {
    net::FrameReader reader(1000);
    reader.feed(begin);
    const auto frame = reader.next();
    REQUIRE(!frame);
    CHECK((frame.error().code == ErrorCode::invalid_argument));
  }
  net::FrameReader reader(1000);
  reader.feed("\xe8\x07"); // 1000
  CHECK(reader.next().has_value());
  CHECK(reader.amid());
}

TEST_CASE("what is not of the protocol is refused by name") {
  const auto refused = [](const std::string& frame) {
    const auto server = net::read_to_server(frame);
    const auto client = net::read_to_client(frame);
    return !server && !client && server.error().text().find("paceline.proto") != std::string::npos;
  };
  CHECK(refused(""));                                              // no kind
  CHECK(refused("GET / HTTP/1.1"));                                // no protobuf
  CHECK(refused(std::string("\x92\x03\x00", 3)));                  // a kind of another version
  CHECK(refused("\x12\x05\x08"));                                  // cut
  CHECK(!net::read_to_server(std::string("\x12\x02\x50\x07", 4))); // a rule that is none
  CHECK(!net::read_to_server(std::string("\x12\x04\x3a\x02\x40\x01", 6))); // a bias without value
  CHECK(!net::read_to_client(std::string("\x22\x03\x1a\x01\x03", 5)));     // a source
}
