#include "net/codec.hpp"

#include "net/limits.hpp"

#include <algorithm>
#include <array>
#include <boost/locale/utf.hpp>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace paceline::net {
namespace {

constexpr std::array codes{
    std::pair{ErrorCode::internal, v1::INTERNAL},
    std::pair{ErrorCode::invalid_argument, v1::INVALID_ARGUMENT},
    std::pair{ErrorCode::not_found, v1::NOT_FOUND},
    std::pair{ErrorCode::corrupt, v1::CORRUPT},
    std::pair{ErrorCode::unsupported, v1::UNSUPPORTED},
    std::pair{ErrorCode::out_of_memory, v1::OUT_OF_MEMORY},
    std::pair{ErrorCode::overloaded, v1::OVERLOADED},
    std::pair{ErrorCode::cancelled, v1::CANCELLED},
    std::pair{ErrorCode::deadline, v1::DEADLINE},
    std::pair{ErrorCode::unavailable, v1::UNAVAILABLE},
};
constexpr std::array modes{
    std::pair{SpeculationMode::automatic, v1::SPECULATION_AUTO},
    std::pair{SpeculationMode::off, v1::SPECULATION_OFF},
    std::pair{SpeculationMode::sync, v1::SPECULATION_SYNC},
    std::pair{SpeculationMode::overlap, v1::SPECULATION_OVERLAP},
};
constexpr std::array rules{
    std::pair{VerifyRule::automatic, v1::VERIFY_AUTO},
    std::pair{VerifyRule::rejection, v1::VERIFY_REJECTION},
    std::pair{VerifyRule::coupled, v1::VERIFY_COUPLED},
    std::pair{VerifyRule::match, v1::VERIFY_MATCH},
};
constexpr std::array logprobs_modes{
    std::pair{LogprobsMode::raw, v1::LOGPROBS_RAW},
    std::pair{LogprobsMode::processed, v1::LOGPROBS_PROCESSED},
};
constexpr std::array constraint_kinds{
    std::pair{Constraint::Kind::json, v1::CONSTRAINT_JSON},
    std::pair{Constraint::Kind::json_schema, v1::CONSTRAINT_JSON_SCHEMA},
    std::pair{Constraint::Kind::regex, v1::CONSTRAINT_REGEX},
    std::pair{Constraint::Kind::choice, v1::CONSTRAINT_CHOICE},
    std::pair{Constraint::Kind::grammar, v1::CONSTRAINT_GRAMMAR},
    std::pair{Constraint::Kind::structural_tag, v1::CONSTRAINT_STRUCTURAL_TAG},
};
constexpr std::array sources{
    std::pair{TokenSource::target, v1::SOURCE_TARGET},
    std::pair{TokenSource::draft, v1::SOURCE_DRAFT},
    std::pair{TokenSource::lookahead, v1::SOURCE_LOOKAHEAD},
};
constexpr std::array reasons{
    std::pair{FinishReason::error, v1::FINISH_ERROR},
    std::pair{FinishReason::stop, v1::FINISH_STOP},
    std::pair{FinishReason::length, v1::FINISH_LENGTH},
    std::pair{FinishReason::cancelled, v1::FINISH_CANCELLED},
    std::pair{FinishReason::deadline, v1::FINISH_DEADLINE},
};

/// Thrown for a message that cannot be read, or a request that cannot be written; `read` and
/// `write` catch it.
struct Wrong {
  Error error;
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
    throw Wrong{{ErrorCode::invalid_argument, fmt::format("there is no {} {}", what, int(value)),
                 "use a value of paceline.proto"}};
  return row->first;
}

bool is_utf8(std::string_view text) {
  using Utf8 = boost::locale::utf::utf_traits<char>;
  for (const char* at = text.begin(); at != text.end();)
    if (!boost::locale::utf::is_valid_codepoint(Utf8::decode(at, text.end())))
      return false;
  return true;
}

/// Returns the text if it is UTF-8, which proto3 requires of strings.
const std::string& utf8(const std::string& text, const char* field) {
  if (!is_utf8(text))
    throw Wrong{
        {ErrorCode::invalid_argument, fmt::format("{} is not UTF-8", field), "give it as UTF-8"}};
  return text;
}

/// Sets a field if there is a value.
template <class Message, class Value, class Setter>
void set(Message& to, Setter setter, const std::optional<Value>& value) {
  if (value)
    (to.*setter)(*value);
}

template <class Value>
std::optional<Value> given(bool present, Value value) {
  return present ? std::optional(value) : std::nullopt;
}

void write_sampling(v1::Sampling& to, const Sampling& from) {
  set(to, &v1::Sampling::set_temperature, from.temperature);
  set(to, &v1::Sampling::set_top_k, from.top_k);
  set(to, &v1::Sampling::set_top_p, from.top_p);
  set(to, &v1::Sampling::set_min_p, from.min_p);
  set(to, &v1::Sampling::set_repetition_penalty, from.repetition_penalty);
  set(to, &v1::Sampling::set_presence_penalty, from.presence_penalty);
  set(to, &v1::Sampling::set_frequency_penalty, from.frequency_penalty);
  for (const auto& [token, bias] : from.logit_bias) {
    v1::LogitBias& one = *to.add_logit_bias();
    one.set_token(token);
    one.set_bias(bias);
  }
  to.mutable_allowed_token_ids()->Add(from.allowed_token_ids.begin(), from.allowed_token_ids.end());
  set(to, &v1::Sampling::set_seed, from.seed);
  to.set_choice(from.choice);
}

Sampling read_sampling(const v1::Sampling& from) {
  Sampling to;
  to.temperature = given(from.has_temperature(), from.temperature());
  to.top_k = given(from.has_top_k(), int(from.top_k()));
  to.top_p = given(from.has_top_p(), from.top_p());
  to.min_p = given(from.has_min_p(), from.min_p());
  to.repetition_penalty = given(from.has_repetition_penalty(), from.repetition_penalty());
  to.presence_penalty = given(from.has_presence_penalty(), from.presence_penalty());
  to.frequency_penalty = given(from.has_frequency_penalty(), from.frequency_penalty());
  for (const v1::LogitBias& one : from.logit_bias())
    to.logit_bias.emplace_back(one.token(), one.bias());
  to.allowed_token_ids.assign(from.allowed_token_ids().begin(), from.allowed_token_ids().end());
  to.seed = given(from.has_seed(), std::uint64_t(from.seed()));
  to.choice = from.choice();
  return to;
}

void write_prompt(v1::GenerateRequest& to, const Request& from) {
  if (is_utf8(from.prompt))
    to.set_prompt(from.prompt);
  else
    to.set_prompt_bytes(from.prompt);
  to.mutable_prompt_tokens()->Add(from.prompt_tokens.begin(), from.prompt_tokens.end());
  to.set_add_special_tokens(from.add_special_tokens);
  to.set_parse_special_tokens(from.parse_special_tokens);
}

void read_prompt(Request& to, const v1::GenerateRequest& from) {
  if (!from.prompt().empty() && !from.prompt_bytes().empty())
    throw Wrong{{ErrorCode::invalid_argument, "there is a prompt, and prompt_bytes besides",
                 "give one of them"}};
  to.prompt = from.prompt_bytes().empty() ? from.prompt() : from.prompt_bytes();
  to.prompt_tokens.assign(from.prompt_tokens().begin(), from.prompt_tokens().end());
  to.add_special_tokens = !from.has_add_special_tokens() || from.add_special_tokens();
  to.parse_special_tokens = from.parse_special_tokens();
}

void write_ends(v1::GenerateRequest& to, const Request& from) {
  set(to, &v1::GenerateRequest::set_max_tokens, from.max_tokens);
  for (const std::string& stop : from.stop)
    to.add_stop(utf8(stop, "Request::stop"));
  to.mutable_stop_token_ids()->Add(from.stop_token_ids.begin(), from.stop_token_ids.end());
  to.set_ignore_eos(from.ignore_eos);
  to.set_min_tokens(from.min_tokens);
  to.set_skip_special_tokens(from.skip_special_tokens);
  if (from.deadline)
    to.set_deadline_milliseconds(from.deadline->count());
}

void read_ends(Request& to, const v1::GenerateRequest& from) {
  to.max_tokens = given(from.has_max_tokens(), int(from.max_tokens()));
  to.stop.assign(from.stop().begin(), from.stop().end());
  to.stop_token_ids.assign(from.stop_token_ids().begin(), from.stop_token_ids().end());
  to.ignore_eos = from.ignore_eos();
  to.min_tokens = from.min_tokens();
  to.skip_special_tokens = !from.has_skip_special_tokens() || from.skip_special_tokens();
  if (from.has_deadline_milliseconds())
    to.deadline = std::clamp(std::chrono::milliseconds(from.deadline_milliseconds()),
                             -limits::deadline_max, limits::deadline_max);
}

void write_constraint(v1::GenerateRequest& to, const std::optional<Constraint>& from) {
  if (!from)
    return;
  v1::Constraint& out = *to.mutable_constraint();
  out.set_kind(to_schema(constraint_kinds, from->kind));
  out.set_text(utf8(from->text, "Constraint::text"));
  for (const std::string& choice : from->choices)
    out.add_choices(utf8(choice, "Constraint::choices"));
  out.set_disable_any_whitespace(!from->any_whitespace);
}

std::optional<Constraint> read_constraint(const v1::GenerateRequest& from) {
  if (!from.has_constraint())
    return std::nullopt;
  const v1::Constraint& given = from.constraint();
  return Constraint{from_schema(constraint_kinds, given.kind(), "kind of constraint"),
                    given.text(),
                    {given.choices().begin(), given.choices().end()},
                    !given.disable_any_whitespace()};
}

void write_rest(v1::GenerateRequest& to, const Request& from) {
  if (from.speculation)
    to.set_speculation(to_schema(modes, *from.speculation));
  set(to, &v1::GenerateRequest::set_window, from.window);
  if (from.drafter)
    to.set_drafter(utf8(*from.drafter, "Request::drafter"));
  to.set_verify(to_schema(rules, from.verify));
  to.set_draft_scope(utf8(from.draft_scope, "Request::draft_scope"));
  to.set_cache_salt(utf8(from.cache_salt, "Request::cache_salt"));
  to.set_logprobs(from.logprobs);
  to.set_top_logprobs(from.top_logprobs);
  to.set_prompt_logprobs(from.prompt_logprobs);
  to.set_logprobs_mode(to_schema(logprobs_modes, from.logprobs_mode));
  to.set_priority(from.priority);
  to.set_client(utf8(from.client, "Request::client"));
  to.set_client_weight(from.client_weight);
  write_constraint(to, from.constraint);
}

void read_rest(Request& to, const v1::GenerateRequest& from) {
  if (from.has_speculation())
    to.speculation = from_schema(modes, from.speculation(), "mode of speculation");
  to.window = given(from.has_window(), int(from.window()));
  to.drafter = given(from.has_drafter(), from.drafter());
  to.verify = from_schema(rules, from.verify(), "rule of verification");
  to.draft_scope = from.draft_scope();
  to.cache_salt = from.cache_salt();
  to.logprobs = from.logprobs();
  to.top_logprobs = from.top_logprobs();
  to.prompt_logprobs = from.prompt_logprobs();
  to.logprobs_mode = from_schema(logprobs_modes, from.logprobs_mode(), "mode of logprobs");
  to.priority = from.priority();
  to.client = from.client();
  to.client_weight = from.has_client_weight() ? from.client_weight() : to.client_weight;
  to.constraint = read_constraint(from);
}

// --- events

template <class Message>
void write_logprobs(Message& to, const std::vector<TokenLogprob>& from) {
  for (const TokenLogprob& one : from) {
    v1::TokenLogprob& next = *to.add_logprobs();
    next.set_token(one.token);
    next.set_logprob(one.logprob);
    for (const auto& [token, logprob] : one.top) {
      v1::TokenLogprob::Alternative& other = *next.add_top();
      other.set_token(token);
      other.set_logprob(logprob);
    }
  }
}

template <class Message>
std::vector<TokenLogprob> read_logprobs(const Message& from) {
  std::vector<TokenLogprob> to;
  to.reserve(std::size_t(from.logprobs_size()));
  for (const v1::TokenLogprob& one : from.logprobs()) {
    TokenLogprob& next = to.emplace_back(TokenLogprob{one.token(), one.logprob(), {}});
    for (const v1::TokenLogprob::Alternative& other : one.top())
      next.top.emplace_back(other.token(), other.logprob());
  }
  return to;
}

void write_event(v1::GenerateEvent& to, const Delta& from) {
  v1::Delta& out = *to.mutable_delta();
  out.mutable_tokens()->Add(from.tokens.begin(), from.tokens.end());
  for (const TokenSource source : from.sources)
    out.add_sources(to_schema(sources, source));
  out.set_text(from.text);
  write_logprobs(out, from.logprobs);
}

Delta read_event(const v1::Delta& from) {
  Delta to;
  to.tokens.assign(from.tokens().begin(), from.tokens().end());
  for (const int source : from.sources())
    to.sources.push_back(from_schema(sources, v1::TokenSource(source), "source of a token"));
  to.text = from.text();
  to.logprobs = read_logprobs(from);
  return to;
}

void write_event(v1::GenerateEvent& to, const PromptLogprobs& from) {
  v1::PromptLogprobs& out = *to.mutable_prompt_logprobs();
  out.mutable_tokens()->Add(from.tokens.begin(), from.tokens.end());
  write_logprobs(out, from.logprobs);
}

PromptLogprobs read_event(const v1::PromptLogprobs& from) {
  return {.tokens = {from.tokens().begin(), from.tokens().end()}, .logprobs = read_logprobs(from)};
}

void write_speculation(v1::Speculation& to, const SpeculationStats& from) {
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
  to.set_draft_disabled(from.draft_disabled);
  to.set_windows_cut(from.windows_cut);
  to.set_drafter_failures(from.drafter_failures);
  to.set_tree_tokens(from.tree_tokens);
  for (const DrafterCounts& of : from.drafters) {
    v1::Speculation::Drafter& drafter = *to.add_drafters();
    drafter.set_name(of.name);
    drafter.set_judged(of.judged);
    drafter.set_accepted(of.accepted);
  }
}

SpeculationStats read_speculation(const v1::Speculation& from) {
  SpeculationStats to{.mode = from_schema(modes, from.mode(), "mode of speculation"),
                      .verify = from_schema(rules, from.verify(), "rule of verification"),
                      .window = from.window(),
                      .drafted = from.drafted(),
                      .forked = from.forked(),
                      .judged = from.judged(),
                      .accepted = from.accepted(),
                      .rounds = from.rounds(),
                      .lookahead_hits = from.lookahead_hits(),
                      .fork_hits = from.fork_hits(),
                      .lookahead_rounds = from.lookahead_rounds(),
                      .tree_tokens = from.tree_tokens(),
                      .overlap_ratio = from.overlap_ratio(),
                      .draft_context_exceeded = from.draft_context_exceeded(),
                      .draft_disabled = from.draft_disabled(),
                      .windows_cut = from.windows_cut(),
                      .drafter_failures = from.drafter_failures()};
  for (const v1::Speculation::Drafter& of : from.drafters())
    to.drafters.push_back({of.name(), of.judged(), of.accepted()});
  return to;
}

void write_event(v1::GenerateEvent& to, const Finished& from) {
  v1::Finished& out = *to.mutable_finished();
  out.set_reason(to_schema(reasons, from.reason));
  if (from.error)
    write(*out.mutable_error(), *from.error);
  out.set_stop_match(from.stop_match);
  set(out, &v1::Finished::set_stop_token, from.stop_token);
  out.set_seed(from.seed);
  v1::Usage& usage = *out.mutable_usage();
  usage.set_prompt_tokens(from.usage.prompt_tokens);
  usage.set_completion_tokens(from.usage.completion_tokens);
  usage.set_cached_tokens(from.usage.cached_tokens);
  write_speculation(*out.mutable_speculation(), from.speculation);
  v1::Timing& timing = *out.mutable_timing();
  timing.set_queue_seconds(from.timing.queue_seconds);
  timing.set_time_to_first_token_seconds(from.timing.time_to_first_token_seconds);
  timing.set_decode_seconds(from.timing.decode_seconds);
  timing.set_total_seconds(from.timing.total_seconds);
  out.set_reproducible(from.reproducible);
}

Error read_error(const v1::Error& from) {
  return {from_schema(codes, from.code(), "code of an error"), from.message(), from.hint()};
}

Finished read_event(const v1::Finished& from) {
  Finished to;
  to.reason = from_schema(reasons, from.reason(), "reason to finish");
  if (from.has_error())
    to.error = read_error(from.error());
  to.stop_match = from.stop_match();
  to.stop_token = given(from.has_stop_token(), TokenId(from.stop_token()));
  to.seed = from.seed();
  const v1::Usage& usage = from.usage();
  to.usage = {usage.prompt_tokens(), usage.completion_tokens(), usage.cached_tokens()};
  to.speculation = read_speculation(from.speculation());
  const v1::Timing& timing = from.timing();
  to.timing = {timing.queue_seconds(), timing.time_to_first_token_seconds(),
               timing.decode_seconds(), timing.total_seconds()};
  to.reproducible = from.reproducible();
  return to;
}

template <class Function>
auto caught(Function function) -> Result<decltype(function())> {
  try {
    return function();
  } catch (const Wrong& wrong) {
    return tl::unexpected(wrong.error);
  }
}

} // namespace

Result<void> write(v1::GenerateRequest& to, const Request& from) {
  return caught([&] {
           write_prompt(to, from);
           write_ends(to, from);
           write_sampling(*to.mutable_sampling(), from.sampling);
           write_rest(to, from);
           return true;
         })
      .map([](bool) {});
}

Result<Request> read(const v1::GenerateRequest& from) {
  return caught([&] {
    Request to;
    read_prompt(to, from);
    read_ends(to, from);
    to.sampling = read_sampling(from.sampling());
    read_rest(to, from);
    return to;
  });
}

void write(v1::GenerateEvent& to, const Event& from) {
  std::visit([&](const auto& event) { write_event(to, event); }, from);
}

Result<Event> read(const v1::GenerateEvent& from) {
  return caught([&]() -> Event {
    switch (from.event_case()) {
    case v1::GenerateEvent::kDelta: return read_event(from.delta());
    case v1::GenerateEvent::kPromptLogprobs: return read_event(from.prompt_logprobs());
    case v1::GenerateEvent::kFinished: return read_event(from.finished());
    case v1::GenerateEvent::EVENT_NOT_SET: break;
    }
    throw Wrong{{ErrorCode::unsupported, "an event of no kind that this version knows",
                 "use a client as new as the server"}};
  });
}

void write(v1::Error& to, const Error& from) {
  to.set_code(to_schema(codes, from.code));
  to.set_message(from.message);
  to.set_hint(from.hint);
}

Result<Error> read(const v1::Error& from) {
  return caught([&] { return read_error(from); });
}

} // namespace paceline::net
