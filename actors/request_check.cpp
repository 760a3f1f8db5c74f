#include "actors/request_check.hpp"

#include "actors/limits.hpp"
#include "sampling/fields.hpp"
#include "sampling/limits.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <ranges>

namespace paceline::actors {
namespace {

namespace bounds = sampling::limits;

tl::unexpected<Error> bad(std::string what, std::string mend) {
  return fail(ErrorCode::invalid_argument, std::move(what), std::move(mend));
}

/// Checks that each number is what its table says. room: tokens that the context leaves.
Result<void> check_numbers(const Request& request, int room) {
  for (const sampling::RequestNumber& field : sampling::request_numbers)
    if (auto known = base::check(field, request); !known)
      return known;
  const auto& least = sampling::request_number("min_tokens");
  return base::check_number(least.path,
                            {least.range.least, double(request.max_tokens.value_or(room)), true},
                            request.min_tokens);
}

/// Checks that all ids are in the vocabulary. what: what has them, with its verb.
template <class Ids>
Result<void> check_ids(const char* what, const Ids& ids, int vocabulary) {
  for (const TokenId id : ids)
    if (id < 0 || id >= vocabulary)
      return bad(fmt::format("{} token {}", what, id),
                 fmt::format("ids go from 0 to {}", vocabulary - 1));
  return {};
}

/// Returns the warping of a request whose numbers are in their bounds. w: the checkpoint's
/// defaults.
Result<sampling::Warping> warping_of(const Request& request, sampling::Warping w, int vocabulary) {
  for (const sampling::RequestNumber& field : sampling::request_numbers)
    if (const auto value = field.warps() ? field.member.get(request) : std::nullopt)
      field.warping.set(w, *value);
  const Sampling& asked = request.sampling;
  w.logit_bias = asked.logit_bias;
  w.allowed = asked.allowed_token_ids;
  std::ranges::sort(w.allowed);
  w.allowed.erase(std::ranges::unique(w.allowed).begin(), w.allowed.end());
  if (w.logit_bias.size() > std::size_t(bounds::logit_bias_max))
    return bad(fmt::format("Sampling::logit_bias has {} entries", w.logit_bias.size()),
               fmt::format("give at most {}", bounds::logit_bias_max));
  for (const auto& [token, bias] : w.logit_bias)
    if (std::isnan(bias))
      return bad(fmt::format("Sampling::logit_bias of token {} is {}", token, bias),
                 "give a number");
  for (const auto& known :
       {check_ids("Sampling::logit_bias names", std::views::keys(w.logit_bias), vocabulary),
        check_ids("Sampling::allowed_token_ids names", w.allowed, vocabulary)})
    if (!known)
      return tl::unexpected(known.error());
  return w;
}

Result<void> check_stops(const std::vector<std::string>& stops) {
  if (stops.size() > std::size_t(bounds::stop_strings_max))
    return bad(fmt::format("{} stop strings", stops.size()),
               fmt::format("give at most {}", bounds::stop_strings_max));
  for (const std::string& stop : stops)
    if (stop.empty() || stop.size() > std::size_t(bounds::stop_string_bytes_max))
      return bad(fmt::format("a stop string has {} bytes", stop.size()),
                 fmt::format("give 1 to {}", bounds::stop_string_bytes_max));
  return {};
}

Result<std::vector<TokenId>> prompt_of(const Request& request, const EngineContext& engine,
                                       int vocabulary) {
  std::vector<TokenId> tokens = request.prompt_tokens;
  if (!tokens.empty() && !request.prompt.empty())
    return bad("Request::prompt and Request::prompt_tokens are both given", "give one of them");
  if (request.prompt.size() > limits::prompt_bytes_max)
    return bad(fmt::format("the prompt has {} bytes", request.prompt.size()),
               fmt::format("give at most {}", limits::prompt_bytes_max));
  if (tokens.empty())
    tokens = engine.tokenizer->encode_as(
        {request.add_special_tokens, request.parse_special_tokens, {}}, request.prompt);
  if (tokens.empty() && !engine.defaults.end_of_text.empty())
    tokens = {engine.defaults.end_of_text.front()}; // It also begins a text.
  if (tokens.empty())
    return bad("the prompt is empty", "give at least one token");
  if (auto known = check_ids("the prompt has", tokens, vocabulary); !known)
    return tl::unexpected(known.error());
  const int longest = engine.max_model_len - (request.max_tokens == 0 ? 0 : 1);
  if (int(tokens.size()) > longest)
    return bad(fmt::format("the prompt has {} tokens", tokens.size()),
               fmt::format("the context takes {}: shorten it or raise EngineOptions::max_model_len",
                           longest));
  return tokens;
}

Result<void> check_salt(const std::string& salt) {
  if (salt.size() <= limits::cache_salt_bytes_max)
    return {};
  return bad(fmt::format("Request::cache_salt has {} bytes", salt.size()),
             fmt::format("give at most {}", limits::cache_salt_bytes_max));
}

Result<void> check_stop_ids(const std::vector<TokenId>& ids, int vocabulary) {
  if (ids.size() > std::size_t(bounds::stop_strings_max))
    return bad(fmt::format("Request::stop_token_ids has {} entries", ids.size()),
               fmt::format("give at most {}", bounds::stop_strings_max));
  return check_ids("Request::stop_token_ids names", ids, vocabulary);
}

/// Sets the constraint, which ends the output when the form is whole.
Result<void> constrain(sampling::Warping& warping, const Request& request,
                       const EngineContext& engine) {
  if (!request.constraint)
    return {};
  if (request.ignore_eos)
    return bad("Request::constraint beside Request::ignore_eos", "leave one of them out");
  if (engine.defaults.end_of_text.empty())
    return fail(ErrorCode::unsupported,
                "Request::constraint: the checkpoint names no token that ends a text",
                "name it as eos_token_id in generation_config.json");
  auto form = engine.constraints->compile(*request.constraint);
  if (!form)
    return tl::unexpected(form.error());
  warping.constraint = std::move(*form);
  return {};
}

/// Sets the tokens that are held back because they would end the output. As in vLLM these include
/// the end of the text even if it is ignored.
void hold_back(sampling::Warping& warping, const Request& request,
               const std::vector<TokenId>& end_of_text) {
  warping.min_tokens = request.min_tokens;
  if (request.min_tokens == 0)
    return;
  warping.held_back = end_of_text;
  warping.held_back.insert(warping.held_back.end(), request.stop_token_ids.begin(),
                           request.stop_token_ids.end());
}

/// Counts the events that make the rounds of a request differ from those of another run.
std::uint64_t faults(const base::Telemetry& telemetry) {
  return telemetry.restarts + telemetry.recomputations + telemetry.stalls + telemetry.preemptions;
}

/// Whether the form of the answer drafts.
bool form_drafts(const Request& request, const EngineContext& engine) {
  const auto asked = request.speculation.value_or(SpeculationMode::automatic);
  return request.constraint && engine.parts.scheduler.forms_draft &&
         asked != SpeculationMode::off &&
         request.drafter.value_or(scheduling::form_drafter) == scheduling::form_drafter;
}

/// Returns the request's mode, or else the engine's; off if there is no draft.
SpeculationMode mode_of(const Request& request, const EngineContext& engine) {
  const SchedulerParts& scheduler = engine.parts.scheduler;
  if (engine.drafters.empty() || !scheduler.has_draft || request.drafter == "none" ||
      request.drafter == scheduling::form_drafter)
    return SpeculationMode::off;
  const auto asked = request.speculation.value_or(SpeculationMode::automatic);
  return asked == SpeculationMode::automatic ? scheduler.policy.mode : asked;
}

/// Checks that the name is one of the engine's drafters, or the form, or none.
Result<void> check_drafter(const std::optional<std::string>& drafter, const EngineContext& engine) {
  std::vector<std::string> known{"none"};
  known.insert(known.end(), engine.drafters.begin(), engine.drafters.end());
  if (engine.parts.scheduler.forms_draft)
    known.emplace_back(scheduling::form_drafter);
  if (!drafter || std::ranges::count(known, *drafter) > 0)
    return {};
  return bad(fmt::format("Request::drafter is '{}', which does not draft here", *drafter),
             fmt::format("give {}, or leave it out", fmt::join(known, " or ")));
}

class RepeatJudge final : public base::EventSink {
public:
  enum class Promise { always, without_fault, none };

  RepeatJudge(std::shared_ptr<base::EventSink> to, Promise promise,
              std::shared_ptr<const base::Telemetry> telemetry)
      : to_(std::move(to)), promise_(promise), telemetry_(std::move(telemetry)),
        moved_before_(telemetry_->target_moved), faults_before_(faults(*telemetry_)) {}

  void deliver(Event event) override {
    if (auto* end = std::get_if<Finished>(&event))
      end->reproducible = repeats(end->speculation);
    to_->deliver(std::move(event));
  }

private:
  bool repeats(const SpeculationStats& speculation) const {
    if (promise_ == Promise::none || telemetry_->target_moved != moved_before_)
      return false;
    return promise_ == Promise::always ||
           (!telemetry_->draft_disabled && !speculation.windows_cut &&
            faults(*telemetry_) == faults_before_);
  }

  const std::shared_ptr<base::EventSink> to_;
  const Promise promise_;
  const std::shared_ptr<const base::Telemetry> telemetry_;
  const bool moved_before_;
  const std::uint64_t faults_before_;
};

/// Returns the promise that docs/theory.md gives.
RepeatJudge::Promise promise_of(const speculation::SequenceSpec& spec, const Request& request,
                                const EngineContext& engine) {
  const SpeculationMode mode = mode_of(request, engine);
  const bool drafts = mode != SpeculationMode::off || form_drafts(request, engine);
  if (spec.warping.temperature == 0 || spec.rule == VerifyRule::coupled || !drafts)
    return RepeatJudge::Promise::always;
  const bool fixed_window = request.window || engine.parts.scheduler.policy.window;
  return mode == SpeculationMode::sync && fixed_window && engine.draft_repeats
             ? RepeatJudge::Promise::without_fault
             : RepeatJudge::Promise::none;
}

} // namespace

std::shared_ptr<base::EventSink> judging_repeats(std::shared_ptr<base::EventSink> to,
                                                 const speculation::SequenceSpec& spec,
                                                 const Request& request,
                                                 const EngineContext& engine) {
  return std::make_shared<RepeatJudge>(std::move(to), promise_of(spec, request, engine),
                                       engine.parts.telemetry);
}

Result<scheduling::Submit> check_request(const Request& request, const EngineContext& engine,
                                         std::uint64_t drawn_seed) {
  const int vocabulary = engine.parts.sampler.vocabulary;
  auto prompt = prompt_of(request, engine, vocabulary);
  if (!prompt)
    return tl::unexpected(prompt.error());
  const int room = engine.max_model_len - int(prompt->size());
  if (auto known = check_numbers(request, room); !known)
    return tl::unexpected(known.error());
  auto warping = warping_of(request, engine.defaults.warping, vocabulary);
  if (!warping)
    return tl::unexpected(warping.error());
  for (const auto& result :
       {check_stops(request.stop), check_drafter(request.drafter, engine),
        check_stop_ids(request.stop_token_ids, vocabulary), check_salt(request.cache_salt)})
    if (!result)
      return tl::unexpected(result.error());

  if (auto constrained = constrain(*warping, request, engine); !constrained)
    return tl::unexpected(constrained.error());

  auto spec = std::make_shared<speculation::SequenceSpec>();
  spec->prompt_tokens = int(prompt->size());
  spec->max_tokens = std::min(request.max_tokens.value_or(room), room);
  if (!request.ignore_eos)
    spec->end_of_text = engine.defaults.end_of_text;
  spec->end_of_text.insert(spec->end_of_text.end(), request.stop_token_ids.begin(),
                           request.stop_token_ids.end());
  spec->warping = *warping;
  hold_back(spec->warping, request, engine.defaults.end_of_text);
  spec->rule = sampling::resolve(request.verify, request.sampling.seed.has_value());
  spec->noise.choice = std::uint32_t(request.sampling.choice);
  spec->noise.seed = request.sampling.seed.value_or(drawn_seed & ((1ULL << 53) - 1));
  spec->top_logprobs = request.logprobs || request.prompt_logprobs ? request.top_logprobs : -1;
  spec->logprobs_mode = request.logprobs_mode;
  spec->prompt_logprobs = request.prompt_logprobs;
  spec->speculation = request.drafter == "none"
                          ? SpeculationMode::off
                          : request.speculation.value_or(SpeculationMode::automatic);
  spec->form_drafts = form_drafts(request, engine);
  if (request.drafter == scheduling::form_drafter) {
    spec->lookup_drafts = spec->model_drafts = false;
  } else if (engine.drafters.size() > 1 && request.drafter) {
    spec->lookup_drafts = *request.drafter == engine.drafters.front();
    spec->model_drafts = !spec->lookup_drafts;
  }
  spec->window = request.window.value_or(0);
  spec->priority = request.priority;
  spec->client = std::hash<std::string>{}(request.client);
  spec->client_weight = request.client_weight;
  if (request.deadline) // One that has passed becomes 0.
    spec->deadline = std::clamp(*request.deadline, std::chrono::milliseconds(0), limits::time_max);
  spec->draft_scope = request.draft_scope;
  spec->cache_salt = request.cache_salt;

  scheduling::Submit submit;
  submit.spec = std::move(spec);
  submit.prompt = std::move(*prompt);
  submit.stop = request.stop;
  submit.skip_special_tokens = request.skip_special_tokens;
  return submit;
}

} // namespace paceline::actors
