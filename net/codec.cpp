#include "net/codec.hpp"

#include "net/framing.hpp"
#include "net/paceline.pb.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

namespace paceline::net {
namespace schema = paceline::wire::schema; // the protocol's package, as it was published
namespace {

constexpr std::array codes{
    std::pair{ErrorCode::internal, schema::INTERNAL},
    std::pair{ErrorCode::invalid_argument, schema::INVALID_ARGUMENT},
    std::pair{ErrorCode::not_found, schema::NOT_FOUND},
    std::pair{ErrorCode::corrupt, schema::CORRUPT},
    std::pair{ErrorCode::unsupported, schema::UNSUPPORTED},
    std::pair{ErrorCode::out_of_memory, schema::OUT_OF_MEMORY},
    std::pair{ErrorCode::overloaded, schema::OVERLOADED},
    std::pair{ErrorCode::cancelled, schema::CANCELLED},
    std::pair{ErrorCode::deadline, schema::DEADLINE},
    std::pair{ErrorCode::unavailable, schema::UNAVAILABLE},
};
constexpr std::array modes{
    std::pair{SpeculationMode::automatic, schema::SPECULATION_AUTO},
    std::pair{SpeculationMode::off, schema::SPECULATION_OFF},
    std::pair{SpeculationMode::sync, schema::SPECULATION_SYNC},
    std::pair{SpeculationMode::overlap, schema::SPECULATION_OVERLAP},
};
constexpr std::array rules{
    std::pair{VerifyRule::automatic, schema::VERIFY_AUTO},
    std::pair{VerifyRule::rejection, schema::VERIFY_REJECTION},
    std::pair{VerifyRule::coupled, schema::VERIFY_COUPLED},
    std::pair{VerifyRule::match, schema::VERIFY_MATCH},
};
constexpr std::array reasons{
    std::pair{FinishReason::error, schema::FINISH_ERROR},
    std::pair{FinishReason::stop, schema::FINISH_STOP},
    std::pair{FinishReason::length, schema::FINISH_LENGTH},
    std::pair{FinishReason::cancelled, schema::FINISH_CANCELLED},
    std::pair{FinishReason::deadline, schema::FINISH_DEADLINE},
};

/// The frame is not of the schema; caught where reading begins.
struct Malformed {
  const char* what;
};

template <class Table, class Ours>
auto to_schema(const Table& table, Ours value) {
  return std::find_if(table.begin(), table.end(),
                      [&](const auto& row) { return row.first == value; })
      ->second;
}

template <class Table, class Theirs>
auto from_schema(const Table& table, Theirs value, const char* what) {
  const auto* row = std::find_if(table.begin(), table.end(),
                                 [&](const auto& candidate) { return candidate.second == value; });
  if (row == table.end())
    throw Malformed{what};
  return row->first;
}

void write(schema::Error& to, const Error& error) {
  to.set_code(to_schema(codes, error.code));
  to.set_message(error.message);
  to.set_hint(error.hint);
}

Error read(const schema::Error& from) {
  return {from_schema(codes, from.code(), "an error's code"), from.message(), from.hint()};
}

// --- requests

void write(schema::Sampling& to, const Sampling& from) {
  const auto set = [&to](const auto& value, auto setter) {
    if (value)
      (to.*setter)(*value);
  };
  set(from.temperature, &schema::Sampling::set_temperature);
  set(from.top_k, &schema::Sampling::set_top_k);
  set(from.top_p, &schema::Sampling::set_top_p);
  set(from.min_p, &schema::Sampling::set_min_p);
  set(from.repetition_penalty, &schema::Sampling::set_repetition_penalty);
  set(from.presence_penalty, &schema::Sampling::set_presence_penalty);
  set(from.frequency_penalty, &schema::Sampling::set_frequency_penalty);
  set(from.seed, &schema::Sampling::set_seed);
  to.set_choice(from.choice);
  for (const auto& [token, bias] : from.logit_bias) {
    to.add_bias_tokens(token);
    to.add_bias_values(bias);
  }
}

Sampling read(const schema::Sampling& from) {
  Sampling to;
  const auto get = [](bool present, auto& into, auto value) {
    if (present)
      into = value;
  };
  get(from.has_temperature(), to.temperature, from.temperature());
  get(from.has_top_k(), to.top_k, from.top_k());
  get(from.has_top_p(), to.top_p, from.top_p());
  get(from.has_min_p(), to.min_p, from.min_p());
  get(from.has_repetition_penalty(), to.repetition_penalty, from.repetition_penalty());
  get(from.has_presence_penalty(), to.presence_penalty, from.presence_penalty());
  get(from.has_frequency_penalty(), to.frequency_penalty, from.frequency_penalty());
  get(from.has_seed(), to.seed, from.seed());
  to.choice = from.choice();
  if (from.bias_tokens_size() != from.bias_values_size())
    throw Malformed{"bias_tokens and bias_values differ in length"};
  for (int i = 0; i < from.bias_tokens_size(); ++i)
    to.logit_bias.emplace_back(from.bias_tokens(i), from.bias_values(i));
  return to;
}

void write(schema::Submit& to, const Submit& from) {
  const Request& request = from.request;
  to.set_request(from.number);
  to.set_prompt(request.prompt);
  to.mutable_prompt_tokens()->Add(request.prompt_tokens.begin(), request.prompt_tokens.end());
  if (request.max_tokens)
    to.set_max_tokens(*request.max_tokens);
  for (const std::string& stop : request.stop)
    to.add_stop(stop);
  to.mutable_stop_token_ids()->Add(request.stop_token_ids.begin(), request.stop_token_ids.end());
  to.set_ignore_eos(request.ignore_eos);
  write(*to.mutable_sampling(), request.sampling);
  if (request.speculation)
    to.set_speculation(to_schema(modes, *request.speculation));
  if (request.window)
    to.set_window(*request.window);
  if (request.drafter)
    to.set_drafter(*request.drafter);
  to.set_without_special_tokens(!request.add_special_tokens);
  to.set_parse_special_tokens(request.parse_special_tokens);
  to.set_verify(to_schema(rules, request.verify));
  to.set_logprobs(request.logprobs);
  to.set_top_logprobs(request.top_logprobs);
  to.set_prompt_logprobs(request.prompt_logprobs);
  to.set_processed_logprobs(request.logprobs_mode == LogprobsMode::processed);
  if (request.deadline)
    to.set_deadline_milliseconds(
        std::uint64_t(std::max<std::int64_t>(request.deadline->count(), 0)));
}

std::chrono::milliseconds read_milliseconds(std::uint64_t count) {
  constexpr std::uint64_t most = 1ULL << 40; // 35 years
  return std::chrono::milliseconds(std::min(count, most));
}

Submit read(const schema::Submit& from) {
  Submit to{.number = from.request(), .request = {}};
  Request& request = to.request;
  request.prompt = from.prompt();
  request.prompt_tokens.assign(from.prompt_tokens().begin(), from.prompt_tokens().end());
  if (from.has_max_tokens())
    request.max_tokens = from.max_tokens();
  request.stop.assign(from.stop().begin(), from.stop().end());
  request.stop_token_ids.assign(from.stop_token_ids().begin(), from.stop_token_ids().end());
  request.ignore_eos = from.ignore_eos();
  request.sampling = read(from.sampling());
  if (from.has_speculation())
    request.speculation = from_schema(modes, from.speculation(), "a speculation mode");
  if (from.has_window())
    request.window = from.window();
  if (from.has_drafter())
    request.drafter = from.drafter();
  request.add_special_tokens = !from.without_special_tokens();
  request.parse_special_tokens = from.parse_special_tokens();
  request.verify = from_schema(rules, from.verify(), "a rule of verification");
  request.logprobs = from.logprobs();
  request.top_logprobs = from.top_logprobs();
  request.prompt_logprobs = from.prompt_logprobs();
  request.logprobs_mode = from.processed_logprobs() ? LogprobsMode::processed : LogprobsMode::raw;
  if (from.has_deadline_milliseconds())
    request.deadline = read_milliseconds(from.deadline_milliseconds());
  return to;
}

// --- events

void write(schema::Logprobs& to, const std::vector<TokenLogprob>& from) {
  for (const TokenLogprob& one : from) {
    to.add_tokens(one.token);
    to.add_logprobs(one.logprob);
    to.add_top_counts(std::uint32_t(one.top.size()));
    for (const auto& [token, logprob] : one.top) {
      to.add_top_tokens(token);
      to.add_top_logprobs(logprob);
    }
  }
}

std::vector<TokenLogprob> read(const schema::Logprobs& from) {
  if (from.tokens_size() != from.logprobs_size() || from.tokens_size() != from.top_counts_size() ||
      from.top_tokens_size() != from.top_logprobs_size())
    throw Malformed{"log-probabilities in lists of different lengths"};
  std::vector<TokenLogprob> to(std::size_t(from.tokens_size()));
  int at = 0;
  for (int i = 0; i < from.tokens_size(); ++i) {
    TokenLogprob& one = to[std::size_t(i)];
    one.token = from.tokens(i);
    one.logprob = from.logprobs(i);
    if (from.top_counts(i) > std::uint32_t(from.top_tokens_size() - at))
      throw Malformed{"fewer alternatives than top_counts says"};
    for (std::uint32_t k = 0; k < from.top_counts(i); ++k, ++at)
      one.top.emplace_back(from.top_tokens(at), from.top_logprobs(at));
  }
  return to;
}

void write(schema::ToClient& to, RequestNumber number, const Delta& delta) {
  schema::Delta& out = *to.mutable_delta();
  out.set_request(number);
  out.mutable_tokens()->Add(delta.tokens.begin(), delta.tokens.end());
  std::string& sources = *out.mutable_sources();
  for (const TokenSource source : delta.sources)
    sources += char(source);
  out.set_text(delta.text);
  if (!delta.logprobs.empty())
    write(*out.mutable_logprobs(), delta.logprobs);
}

Happened read(const schema::Delta& from) {
  Delta delta;
  delta.tokens.assign(from.tokens().begin(), from.tokens().end());
  for (const char source : from.sources()) {
    if (source < 0 || source > char(TokenSource::lookahead))
      throw Malformed{"a token's source"};
    delta.sources.push_back(TokenSource(source));
  }
  delta.text = from.text();
  delta.logprobs = read(from.logprobs());
  return {from.request(), std::move(delta)};
}

void write(schema::ToClient& to, RequestNumber number, const PromptLogprobs& scores) {
  schema::PromptLogprobs& out = *to.mutable_prompt_logprobs();
  out.set_request(number);
  out.mutable_tokens()->Add(scores.tokens.begin(), scores.tokens.end());
  write(*out.mutable_logprobs(), scores.logprobs);
}

Happened read(const schema::PromptLogprobs& from) {
  PromptLogprobs scores;
  scores.tokens.assign(from.tokens().begin(), from.tokens().end());
  scores.logprobs = read(from.logprobs());
  return {from.request(), std::move(scores)};
}

void write(schema::Speculation& to, const SpeculationStats& from) {
  to.set_mode(to_schema(modes, from.mode));
  to.set_verify(to_schema(rules, from.verify));
  to.set_window(from.window);
  to.set_drafted(from.drafted);
  to.set_forked(from.forked);
  to.set_judged(from.judged);
  to.set_accepted(from.accepted);
  to.set_rounds(from.rounds);
  to.set_lookahead_hits(from.lookahead_hits);
  to.set_fork_hits(from.fork_hits);
  to.set_lookahead_rounds(from.lookahead_rounds);
  to.set_overlap_ratio(from.overlap_ratio);
  to.set_draft_context_exceeded(from.draft_context_exceeded);
  to.set_draft_left_out(from.draft_left_out);
  for (const DrafterCounts& of : from.drafters) {
    schema::Speculation::Drafter& drafter = *to.add_drafters();
    drafter.set_name(of.name);
    drafter.set_judged(of.judged);
    drafter.set_accepted(of.accepted);
  }
}

SpeculationStats read(const schema::Speculation& from) {
  std::vector<DrafterCounts> drafters;
  for (const schema::Speculation::Drafter& of : from.drafters())
    drafters.push_back({of.name(), of.judged(), of.accepted()});
  return {.mode = from_schema(modes, from.mode(), "a speculation mode"),
          .verify = from_schema(rules, from.verify(), "a rule of verification"),
          .window = from.window(),
          .drafted = from.drafted(),
          .forked = from.forked(),
          .judged = from.judged(),
          .accepted = from.accepted(),
          .rounds = from.rounds(),
          .lookahead_hits = from.lookahead_hits(),
          .fork_hits = from.fork_hits(),
          .lookahead_rounds = from.lookahead_rounds(),
          .overlap_ratio = from.overlap_ratio(),
          .draft_context_exceeded = from.draft_context_exceeded(),
          .draft_left_out = from.draft_left_out(),
          .drafters = std::move(drafters)};
}

void write(schema::ToClient& to, RequestNumber number, const Finished& end) {
  schema::Finished& out = *to.mutable_finished();
  out.set_request(number);
  out.set_reason(to_schema(reasons, end.reason));
  if (end.error)
    write(*out.mutable_error(), *end.error);
  out.set_stop_match(end.stop_match);
  if (end.stop_token)
    out.set_stop_token(*end.stop_token);
  out.set_seed(end.seed);
  out.set_reproducible(end.reproducible);
  out.mutable_usage()->set_prompt_tokens(end.usage.prompt_tokens);
  out.mutable_usage()->set_completion_tokens(end.usage.completion_tokens);
  out.mutable_usage()->set_cached_tokens(end.usage.cached_tokens);
  write(*out.mutable_speculation(), end.speculation);
  out.mutable_timing()->set_queue_seconds(end.timing.queue_seconds);
  out.mutable_timing()->set_time_to_first_token_seconds(end.timing.time_to_first_token_seconds);
  out.mutable_timing()->set_decode_seconds(end.timing.decode_seconds);
  out.mutable_timing()->set_total_seconds(end.timing.total_seconds);
}

Happened read(const schema::Finished& from) {
  Finished end;
  end.reason = from_schema(reasons, from.reason(), "a reason to finish");
  if (from.has_error())
    end.error = read(from.error());
  end.stop_match = from.stop_match();
  if (from.has_stop_token())
    end.stop_token = from.stop_token();
  end.seed = from.seed();
  end.reproducible = from.reproducible();
  end.usage = {from.usage().prompt_tokens(), from.usage().completion_tokens(),
               from.usage().cached_tokens()};
  end.speculation = read(from.speculation());
  end.timing = {from.timing().queue_seconds(), from.timing().time_to_first_token_seconds(),
                from.timing().decode_seconds(), from.timing().total_seconds()};
  return {from.request(), std::move(end)};
}

// --- all kinds

struct ServerKinds {
  schema::ToServer& out;

  void operator()(const Hello& hello) const {
    schema::Hello& to = *out.mutable_hello();
    to.set_version_min(hello.version_min);
    to.set_version_max(hello.version_max);
    to.set_api_key(hello.api_key);
    to.set_client(hello.client);
  }
  void operator()(const Submit& submit) const { write(*out.mutable_submit(), submit); }
  void operator()(const Cancel& cancel) const { out.mutable_cancel()->set_request(cancel.number); }
  void operator()(const Ping& ping) const { out.mutable_ping()->set_number(ping.number); }
};

struct ClientKinds {
  schema::ToClient& out;

  void operator()(const Welcome& welcome) const {
    schema::Welcome& to = *out.mutable_welcome();
    to.set_version(welcome.version);
    to.set_server(welcome.server);
    to.set_model(welcome.model);
    to.set_idle_milliseconds(std::uint32_t(welcome.idle.count()));
    to.set_frame_bytes_max(welcome.frame_bytes_max);
    to.set_ready(welcome.ready);
  }
  void operator()(const Accepted& accepted) const {
    out.mutable_accepted()->set_request(accepted.number);
  }
  void operator()(const Failure& failure) const {
    out.mutable_failure()->set_request(failure.number);
    write(*out.mutable_failure()->mutable_error(), failure.error);
  }
  void operator()(const Happened& happened) const {
    std::visit([&](const auto& event) { write(out, happened.number, event); }, happened.event);
  }
  void operator()(const Pong& pong) const {
    out.mutable_pong()->set_number(pong.number);
    out.mutable_pong()->set_ready(pong.ready);
    out.mutable_pong()->set_healthy(pong.healthy);
  }
  void operator()(const Draining&) const { out.mutable_draining(); }
};

ToServer read(const schema::ToServer& from) {
  switch (from.kind_case()) {
  case schema::ToServer::kHello:
    return Hello{from.hello().version_min(), from.hello().version_max(), from.hello().api_key(),
                 from.hello().client()};
  case schema::ToServer::kSubmit: return read(from.submit());
  case schema::ToServer::kCancel: return Cancel{from.cancel().request()};
  case schema::ToServer::kPing: return Ping{from.ping().number()};
  case schema::ToServer::KIND_NOT_SET: break;
  }
  throw Malformed{"no kind of message that this version knows"};
}

Welcome read(const schema::Welcome& from) {
  return {.version = from.version(),
          .server = from.server(),
          .model = from.model(),
          .idle = std::chrono::milliseconds(from.idle_milliseconds()),
          .frame_bytes_max = from.frame_bytes_max(),
          .ready = from.ready()};
}

ToClient read(const schema::ToClient& from) {
  switch (from.kind_case()) {
  case schema::ToClient::kWelcome: return read(from.welcome());
  case schema::ToClient::kAccepted: return Accepted{from.accepted().request()};
  case schema::ToClient::kFailure:
    return Failure{from.failure().request(), read(from.failure().error())};
  case schema::ToClient::kDelta: return read(from.delta());
  case schema::ToClient::kPromptLogprobs: return read(from.prompt_logprobs());
  case schema::ToClient::kFinished: return read(from.finished());
  case schema::ToClient::kPong:
    return Pong{from.pong().number(), from.pong().ready(), from.pong().healthy()};
  case schema::ToClient::kDraining: return Draining{};
  case schema::ToClient::KIND_NOT_SET: break;
  }
  throw Malformed{"no kind of message that this version knows"};
}

tl::unexpected<Error> malformed(const char* what) {
  return fail(ErrorCode::invalid_argument,
              std::string("a frame is not of Paceline's protocol (") + what + ")",
              "speak paceline.proto, or connect to the right port");
}

template <class Schema>
auto read_frame(std::string_view frame) -> Result<decltype(read(std::declval<const Schema&>()))> {
  Schema message;
  if (!message.ParseFromArray(frame.data(), int(frame.size())))
    return malformed("no such protobuf message");
  try {
    return read(message);
  } catch (const Malformed& wrong) {
    return malformed(wrong.what);
  }
}

template <class Schema, class Kinds, class Message>
void append_as(std::string& stream, const Message& message) {
  Schema out;
  std::visit(Kinds{out}, message);
  append_frame(stream, out.SerializeAsString());
}

} // namespace

void append(std::string& stream, const ToServer& message) {
  append_as<schema::ToServer, ServerKinds>(stream, message);
}
void append(std::string& stream, const ToClient& message) {
  append_as<schema::ToClient, ClientKinds>(stream, message);
}

Result<ToServer> read_to_server(std::string_view frame) {
  return read_frame<schema::ToServer>(frame);
}
Result<ToClient> read_to_client(std::string_view frame) {
  return read_frame<schema::ToClient>(frame);
}

} // namespace paceline::net
