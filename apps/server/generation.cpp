// POST /v1/completions, /v1/chat/completions and /v1/responses: from a body to answers, whole or in
// parts.
#include "apps/console/chat/answer_plan.hpp"
#include "apps/console/json_text.hpp"
#include "apps/server/answers.hpp"
#include "apps/server/bodies.hpp"
#include "apps/server/endpoints.hpp"
#include "apps/server/openai_response.hpp"
#include "apps/server/progress.hpp"
#include "apps/server/prompts.hpp"
#include "apps/server/response_reply.hpp"
#include "sampling/choice_seed.hpp"

#include <algorithm>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <fmt/format.h>
#include <memory>
#include <utility>

namespace paceline::apps::serve {
namespace asio = boost::asio;
namespace {

std::unique_ptr<Reply> reply_to(const Asked& asked, const Engine& engine, ReplyHead head) {
  if (asked.api == Api::responses)
    return std::make_unique<ResponseReply>(engine, asked, std::move(head));
  return std::make_unique<CompletionReply>(engine, asked, std::move(head));
}

/// Takes one HTTP request through an engine.
class Generation {
public:
  Generation(Service& service, Service::Admission& admission, Replica& replica, Exchange& exchange,
             Asked asked)
      : service_(service), replica_(replica), exchange_(exchange), asked_(std::move(asked)),
        answers_(service.executor()), admission_(admission),
        reply_(reply_to(asked_, replica.engine(), head())), choices_(std::size_t(asked_.choices())),
        progress_(choices_.size()) {}
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;
  ~Generation() {
    exchange_.on_gone(nullptr);
    admission_.on_cancel(nullptr);
  }

  asio::awaitable<void> run();

private:
  ReplyHead head() const;
  std::optional<ApiError> plan_answer(EncodedPrompt& prompt);
  ApiError no_form(const Error& why) const;
  asio::awaitable<std::optional<ApiError>> check_form();
  bool hold(const std::vector<EncodedPrompt>& prompts);
  void take_apart(Choice& choice) const;
  std::optional<ApiError> submit(std::vector<EncodedPrompt> prompts);
  asio::awaitable<std::optional<Answers::Item>> next_item();
  asio::awaitable<void> stay_awake();
  asio::awaitable<void> whole();
  asio::awaitable<void> fail_whole(const ApiError& failed);
  asio::awaitable<void> stream();
  asio::awaitable<std::optional<ApiError>> write_stream(std::optional<Answers::Item> item);
  /// Keeps the event and counts it. Returns the error that the choice failed by, if any.
  std::optional<ApiError> take(Answers::Item& item);
  void note_stop_token(Choice& choice, Delta& delta);
  std::string stop_text(const Choice& choice) const;
  std::string events_of(Answers::Item& item);
  /// Cancels the answers. Whatever still comes is only counted.
  asio::awaitable<void> abandon();
  void remark() const;

  Service& service_;
  Replica& replica_;
  Exchange& exchange_;
  Asked asked_;
  Answers answers_;
  Service::Admission& admission_;
  std::unique_ptr<Reply> reply_;
  constraints::AnswerPlan plan_;
  std::string opening_; ///< The part of a chat's answer that is the prompt's end.
  std::vector<Choice> choices_;
  std::vector<Progress> progress_; ///< Progress of each choice.
  Clock::time_point written_;      ///< Time at which the last chunk went out.
  bool begun_ = false;             ///< Whether the status has gone out.
};

ReplyHead Generation::head() const {
  const char* kind = asked_.api == Api::completions ? "cmpl-"
                     : asked_.api == Api::chat      ? "chatcmpl-"
                                                    : "resp_";
  return {.id = kind + exchange_.request().id,
          .created = std::time(nullptr),
          .model = asked_.model.empty() ? replica_.model() : asked_.model,
          .fingerprint = replica_.fingerprint()};
}

asio::awaitable<void> Generation::run() {
  if (const auto wrong = co_await keep_out_bad_words(service_, replica_, asked_))
    co_return co_await exchange_.send(*wrong);
  auto prompts = co_await encode(service_, replica_, asked_);
  if (!prompts)
    co_return co_await exchange_.send(prompts.error());
  if (has_conversation(asked_.api))
    if (const auto wrong = plan_answer(prompts->front()))
      co_return co_await exchange_.send(*wrong);
  if (!hold(*prompts))
    co_return co_await exchange_.send(no_request_memory());
  if (const auto wrong = co_await check_form())
    co_return co_await exchange_.send(*wrong);
  if (const auto refused = submit(std::move(*prompts)))
    co_return co_await exchange_.send(*refused);
  admission_.on_cancel([this] { answers_.cancel(); });
  exchange_.on_gone([this] { admission_.cancel(); });
  if (asked_.stream)
    co_await stream();
  else
    co_await whole();
  remark();
}

/// Finds the form of a chat's answer, which may have reasoning and calls. The opening of a call
/// that must come may become the prompt's end.
std::optional<ApiError> Generation::plan_answer(EncodedPrompt& prompt) {
  const ChatStyle& style = replica_.chat_style();
  plan_ = plan_of(style, asked_.tools, asked_.request, prompt.opens_reasoning);
  opening_ = forced_opening(style, asked_.tools, asked_.request);
  auto form = held_form(plan_);
  if (!form)
    return no_form(form.error());
  asked_.request.constraint = std::move(*form);
  const auto tokens = replica_.engine().tokenize(opening_, false, true);
  prompt.tokens.insert(prompt.tokens.end(), tokens.begin(), tokens.end());
  return std::nullopt;
}

ApiError Generation::no_form(const Error& why) const {
  ApiError error = api_error(why);
  error.param = asked_.form_field.empty() ? "tools" : asked_.form_field;
  return error;
}

/// Checks that the answer can be held to its form. Where calls are the model's choice, schemas that
/// together are too much do not count, unless they are strict.
asio::awaitable<std::optional<ApiError>> Generation::check_form() {
  auto& form = asked_.request.constraint;
  if (!form)
    co_return std::nullopt;
  auto fits = co_await service_.check_form(replica_.engine(), *form);
  if (fits)
    co_return std::nullopt;
  if (auto looser = looser_form(plan_)) {
    form = std::move(looser);
    fits = co_await service_.check_form(replica_.engine(), *form);
  }
  if (fits)
    co_return std::nullopt;
  co_return no_form(fits.error());
}

/// Counts the memory of prompts, scores and functions, which each choice has for itself, and frees
/// what was parsed.
bool Generation::hold(const std::vector<EncodedPrompt>& prompts) {
  std::size_t bytes = 0;
  for (const EncodedPrompt& prompt : prompts)
    bytes += (prompt.tokens.size() * sizeof(TokenId) + prompt.text.size()) *
                 (1 + std::size_t(asked_.n)) +
             std::size_t(asked_.n) * score_bytes(asked_.request, prompt.tokens.size());
  bytes += choices_.size() * (asked_.request.sampling.allowed_token_ids.size() * sizeof(TokenId) +
                              bytes_of(asked_.request.constraint) + asked_.tools.bytes());
  bytes += asked_.echoed_bytes + asked_.name_bytes();
  for (Prompt& prompt : asked_.prompts) // The number of prompts is still needed.
    prompt.emplace<std::string>();
  asked_.messages.clear();
  asked_.chat.variables.clear();
  asked_.bad_words.clear();
  return exchange_.memory().hold(bytes);
}

/// Finds what takes a conversation's answer apart. A chat's that is content only needs nothing.
void Generation::take_apart(Choice& choice) const {
  const bool parts = has_parts(replica_.chat_style(), asked_.tools);
  if (asked_.api == Api::completions || (asked_.api == Api::chat && !parts))
    return;
  const HttpRequest& request = exchange_.request();
  auto reader =
      answer_reader(replica_.chat_style(), asked_.tools, plan_, opening_,
                    fmt::format("{} {} {}", request.id, request.arrived.time_since_epoch().count(),
                                choice.index));
  if (asked_.api == Api::chat)
    choice.chat.emplace(std::move(reader));
  else
    choice.items.emplace(std::move(reader), request.id);
}

std::optional<ApiError> Generation::submit(std::vector<EncodedPrompt> prompts) {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const EncodedPrompt& prompt = prompts[i / std::size_t(asked_.n)];
    Choice& choice = choices_[i];
    choice.index = i;
    if (asked_.echo)
      choice.echo = prompt.text;
    take_apart(choice);
    Request request = asked_.request;
    if ((choice.chat || choice.items) && replica_.chat_style().needs_special())
      request.skip_special_tokens = false;
    choice.has_special = !request.skip_special_tokens;
    request.deadline = admission_.time_left();
    request.prompt_tokens = prompt.tokens;
    // A salt narrows the scopes that its requests draw on, of drafts too.
    request.draft_scope = exchange_.request().draft_scope + asked_.request.cache_salt;
    request.cache_salt = exchange_.request().cache_scope + asked_.request.cache_salt;
    if (const auto seed = asked_.request.sampling.seed)
      request.sampling.seed =
          sampling::choice_seed(*seed, std::uint32_t(i) % std::uint32_t(asked_.n));
    auto stream = replica_.engine().submit(request);
    if (!stream) {
      replica_.note_health(stream.error().code != ErrorCode::unavailable);
      return api_error(stream.error());
    }
    answers_.add(std::move(*stream));
  }
  return std::nullopt;
}

std::optional<ApiError> Generation::take(Answers::Item& item) {
  progress_[item.index].note(replica_, item.event, exchange_.request().arrived);
  Choice& choice = choices_[item.index];
  if (auto* delta = std::get_if<Delta>(&item.event)) {
    if (!delta->tokens.empty())
      choice.last_token = delta->tokens.back();
    note_stop_token(choice, *delta);
  }
  if (auto* scores = std::get_if<PromptLogprobs>(&item.event)) {
    choice.prompt = std::move(*scores);
  } else if (auto* end = std::get_if<Finished>(&item.event)) {
    choice.answer.end = std::move(*end);
    if (asked_.include_stop)
      choice.tail = stop_text(choice);
    return failure_of(choice.answer.end);
  }
  return std::nullopt;
}

/// Notes which stop token ended the text, and removes it from the text unless the client wants it.
void Generation::note_stop_token(Choice& choice, Delta& delta) {
  const auto& stops = asked_.request.stop_token_ids;
  if (delta.tokens.empty() ||
      std::find(stops.begin(), stops.end(), delta.tokens.back()) == stops.end())
    return;
  choice.stop_token = delta.tokens.back();
  const std::string text = replica_.engine().token_bytes(*choice.stop_token);
  if (!asked_.include_stop && delta.text.ends_with(text))
    delta.text.resize(delta.text.size() - text.size());
}

/// Returns what ended the text and is not in it: a string, or a special token.
std::string Generation::stop_text(const Choice& choice) const {
  const Finished& end = choice.answer.end;
  const bool by_token = end.reason == FinishReason::stop && end.stop_match.empty();
  if (!by_token || asked_.request.skip_special_tokens || !choice.last_token)
    return end.stop_match;
  const Engine& engine = replica_.engine();
  return engine.token_bytes(*choice.last_token).empty()
             ? engine.token_bytes(*choice.last_token, false)
             : std::string();
}

asio::awaitable<void> Generation::abandon() {
  answers_.cancel();
  while (auto item = co_await answers_.next())
    take(*item);
}

/// Returns the next event. While none comes, it shows the client, and what is between, that the
/// request is alive.
asio::awaitable<std::optional<Answers::Item>> Generation::next_item() {
  const auto interval = service_.settings().awake_interval;
  if (interval.count() > 0)
    while (!co_await answers_.wait(Clock::now() + interval) && !exchange_.gone())
      co_await stay_awake();
  co_return co_await answers_.next();
}

/// Sends a comment in a stream. A whole answer that has taken long sends its status, then blanks of
/// its JSON.
asio::awaitable<void> Generation::stay_awake() {
  if (asked_.stream) {
    co_await exchange_.write_part(": not done yet\n\n");
    co_return;
  }
  const auto silent = Clock::now() - exchange_.request().arrived;
  if (!exchange_.tells_ends() ||
      silent < limits::silent_intervals * service_.settings().awake_interval)
    co_return;
  if (!std::exchange(begun_, true)) {
    HttpResponse head{.headers = {{"X-Accel-Buffering", "no"}}};
    co_await exchange_.begin_parts(std::move(head));
  }
  co_await exchange_.write_part("\n");
}

/// Answers with an error. If the status has gone out already, the error is sent in an answer that
/// is broken off, so that no client takes it for a valid one.
asio::awaitable<void> Generation::fail_whole(const ApiError& failed) {
  co_await abandon();
  if (exchange_.gone())
    co_return;
  if (!begun_)
    co_return co_await exchange_.send(failed);
  exchange_.remark("error", failed.code.empty() ? failed.message : failed.code);
  co_await exchange_.write_part(error_json(failed));
  exchange_.break_off();
}

asio::awaitable<void> Generation::whole() {
  std::optional<ApiError> failed;
  while (auto item = co_await next_item()) {
    failed = take(*item);
    if (failed)
      break;
    if (const auto* delta = std::get_if<Delta>(&item->event))
      choices_[item->index].answer.add(*delta);
  }
  if (failed)
    co_return co_await fail_whole(*failed);
  std::size_t bytes = 0;
  for (const Choice& choice : choices_)
    bytes += choice.json_bytes();
  std::string body;
  co_await service_.aside(bytes, [&] { body = json_text(reply_->whole(choices_)); });
  if (!begun_) {
    HttpResponse response{.body = std::move(body)};
    co_return co_await exchange_.send(std::move(response));
  }
  co_await exchange_.write_part(std::move(body));
  co_await exchange_.end_parts();
}

/// Streams the answers. The status waits for the first event, unless that takes a while: an error
/// that comes at once has a status of its own.
asio::awaitable<void> Generation::stream() {
  std::optional<Answers::Item> first;
  if (co_await answers_.wait(Clock::now() + limits::stream_head_time)) {
    first = co_await answers_.next();
    const auto* end = first ? std::get_if<Finished>(&first->event) : nullptr;
    if (end && failure_of(*end)) {
      const auto failed = take(*first);
      co_return co_await fail_whole(*failed);
    }
  }
  std::optional<ApiError> failed;
  if (co_await exchange_.begin_events()) {
    if (!first)
      first = co_await next_item();
    failed = co_await write_stream(std::move(first));
  }
  if (failed || exchange_.gone())
    co_await abandon();
  if (exchange_.gone())
    co_return;
  std::string last =
      failed ? reply_->failure(choices_.front(), *failed) : reply_->epilogue(choices_);
  co_await exchange_.write_part(std::move(last));
  co_await exchange_.end_parts();
}

/// Writes at once what is there, of whichever choice. While the client takes it, the streams join
/// what comes.
asio::awaitable<std::optional<ApiError>>
Generation::write_stream(std::optional<Answers::Item> item) {
  while (item) {
    const auto next = service_.next_write(written_);
    if (std::holds_alternative<Delta>(item->event) && Clock::now() < next)
      co_await answers_.rest(next);
    std::string events;
    for (; item; item = events.size() < limits::events_bytes ? answers_.try_next() : std::nullopt) {
      if (auto failed = take(*item)) {
        if (!events.empty())
          co_await exchange_.write_part(std::move(events));
        co_return failed;
      }
      const auto write = [&] { events += events_of(*item); };
      if (const Choice& choice = choices_[item->index]; choice.begun)
        write();
      else
        co_await service_.aside(choice.json_bytes(), write); // The prompt stands before its answer.
    }
    written_ = Clock::now();
    if (!events.empty())
      co_await exchange_.write_part(std::move(events));
    if (exchange_.gone())
      break;
    item = co_await next_item();
  }
  co_return std::nullopt;
}

std::string Generation::events_of(Answers::Item& item) {
  Choice& choice = choices_[item.index];
  if (const auto* delta = std::get_if<Delta>(&item.event))
    return reply_->part(choice, *delta);
  return std::holds_alternative<Finished>(item.event) ? reply_->end(choice) : std::string();
}

/// Puts counts and reasons into the log, and texts only if the operator asked for them.
void Generation::remark() const {
  int prompt_tokens = 0;
  int completion_tokens = 0;
  std::string reasons;
  for (const Choice& choice : choices_) {
    const Finished& end = choice.answer.end;
    if (choice.index % std::size_t(asked_.n) == 0)
      prompt_tokens += end.usage.prompt_tokens;
    completion_tokens += end.usage.completion_tokens;
    reasons += (reasons.empty() ? "" : ",") + std::string(to_string(end.reason));
  }
  exchange_.remark("stream", asked_.stream);
  exchange_.remark("prompt_tokens", prompt_tokens);
  exchange_.remark("completion_tokens", completion_tokens);
  exchange_.remark("finish", reasons);
}

/// Refuses more answers at once than there will ever be places for.
std::optional<ApiError> check_choices(const Service& service, const Asked& asked) {
  const int most = service.settings().max_open;
  if (asked.choices() <= most)
    return std::nullopt;
  return invalid_value("n", fmt::format("{} answers are asked for, and this server takes {} at "
                                        "once: lower n, or send fewer prompts",
                                        asked.choices(), most));
}

asio::awaitable<ApiResult<Asked>> read(Service& service, Exchange& exchange, Api api) {
  ApiResult<Asked> asked;
  const BodyReader reader = [&, vocabularies = service.fleet().vocabularies()](
                                const boost::json::object& body) -> std::optional<ApiError> {
    asked = read_request(api, body, service.settings().defaults, vocabulary_of(vocabularies, body));
    return asked ? std::nullopt : std::optional(asked.error());
  };
  if (auto wrong = co_await read_body(service, exchange, reader))
    co_return refuse(std::move(*wrong));
  co_return std::move(asked);
}

asio::awaitable<void> generate(Service& service, Exchange& exchange, Api api) {
  if (service.settings().log_prompts)
    exchange.remark("body", exchange.request().body);
  auto asked = co_await read(service, exchange, api);
  if (!asked)
    co_return co_await exchange.send(asked.error());
  if (const auto wrong = check_choices(service, *asked))
    co_return co_await exchange.send(*wrong);
  if (!exchange.memory().hold(asked->bytes()))
    co_return co_await exchange.send(no_request_memory());
  const auto admission = service.admit(asked->choices());
  if (!admission)
    co_return co_await exchange.send(admission.error());
  exchange.on_gone([&] { (*admission)->cancel(); });
  const auto found = co_await (*admission)->turn(asked->model, exchange.request().arrived);
  exchange.on_gone(nullptr);
  if (!found)
    co_return co_await exchange.send(found.error());
  if (const Holder& holder = exchange.request().client; !holder.name.empty()) {
    asked->request.client = holder.name; // A key's holder counts, not `user`.
    asked->request.client_weight = holder.weight;
  }
  Generation generation(service, **admission, found->replica(), exchange, std::move(*asked));
  co_await generation.run();
}

} // namespace

asio::awaitable<void> completions(Service& service, Exchange& exchange) {
  return generate(service, exchange, Api::completions);
}

asio::awaitable<void> chat_completions(Service& service, Exchange& exchange) {
  return generate(service, exchange, Api::chat);
}

asio::awaitable<void> responses(Service& service, Exchange& exchange) {
  return generate(service, exchange, Api::responses);
}

} // namespace paceline::apps::serve
