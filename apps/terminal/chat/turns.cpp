// The turns of a chat: a message, answers to it, and the results of the calls in these.
#include "apps/console/chat/answer_plan.hpp"
#include "apps/console/output.hpp"
#include "apps/terminal/chat/answer.hpp"
#include "apps/terminal/chat/chat_session.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::apps {
namespace {

/// An answer takes at most one of so many parts of the context unless told otherwise, so that the
/// chat can go on.
constexpr int context_parts = 4;

/// Holds the answers of a plan to its form, or to a looser one where nothing can hold them to that.
Result<void> hold(const Engine& engine, constraints::AnswerPlan& plan, Request& request) {
  auto form = held_form(plan);
  if (!form)
    return tl::unexpected(form.error());
  request.constraint = std::move(*form);
  if (!request.constraint || engine.check(*request.constraint))
    return {};
  if (auto looser = looser_form(plan))
    request.constraint = std::move(looser);
  return {};
}

} // namespace

/// Returns what the model reads. Error: the template refuses the conversation.
Result<ChatSession::Rendered> ChatSession::render() const {
  paceline::ChatOptions how;
  if (options_.tools.functions.callable())
    how.variables.emplace_back("tools", options_.tools.listed);
  const auto messages = as_template_wants(style_, conversation_.messages());
  auto text = engine().render_chat(messages, how);
  auto tokens = engine().chat_tokens(messages, how);
  if (!text || !tokens)
    return tl::unexpected(text ? tokens.error() : text.error());
  return Rendered{std::move(*text), std::move(*tokens)};
}

/// Drops the oldest messages from what the model reads, which is `whole`, until half of the context
/// is free: so this is not done in each turn, and cached prefixes serve some turns. Where what is
/// left has no room either, nothing is dropped.
Result<ChatSession::Rendered> ChatSession::shifted(Rendered whole) {
  const auto context = std::size_t(engine().target().max_model_len);
  const std::size_t before = conversation_.first_read;
  Result<Rendered> left = std::move(whole);
  while (left && left->tokens.size() > context / 2 && conversation_.drop_oldest() > 0)
    left = render();
  const std::size_t dropped = conversation_.first_read - before;
  if (!left || left->tokens.size() >= context)
    conversation_.first_read = before;
  else if (dropped > 0)
    remark(fmt::format("The context of {} tokens is full: the model no longer reads the oldest {} "
                       "(/save keeps them).",
                       context, counted(dropped, "message")));
  return left;
}

/// Returns what the model reads. Errors: the template refuses the conversation, or it is too long.
Result<ChatSession::Rendered> ChatSession::render_with_room() {
  const bool shifts = options_.context_shift;
  const int context = engine().target().max_model_len;
  const int room = std::min(options_.request.max_tokens.value_or(context), context / context_parts);
  auto whole = render();
  if (shifts && whole && int(whole->tokens.size()) + room > context)
    whole = shifted(std::move(*whole));
  if (!whole || int(whole->tokens.size()) < context)
    return whole;
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} has {} tokens, and the model's context {}",
                          shifts ? "what was said last" : "the conversation", whole->tokens.size(),
                          context),
              shifts ? "say less, or give the model more context (-c)"
                     : "/reset begins anew, and /context-shift on lets the oldest messages go");
}

/// Makes the request for the next answer. Errors: the template refuses the conversation, no answer
/// can have the form, or the conversation is too long.
Result<ChatSession::Next> ChatSession::next_answer() {
  auto prompt = render_with_room();
  if (!prompt)
    return tl::unexpected(prompt.error());
  const Tools& tools = options_.tools.functions;
  Request request = options_.request;
  auto plan = plan_of(style_, tools, request, opens_reasoning(style_, prompt->text));
  const std::string opening = forced_opening(style_, tools, request);
  if (const auto held = hold(engine(), plan, request); !held)
    return tl::unexpected(held.error());
  const auto opened = engine().tokenize(opening, false, true);
  request.prompt_tokens = std::move(prompt->tokens);
  request.prompt_tokens.insert(request.prompt_tokens.end(), opened.begin(), opened.end());
  const auto stops = engine().chat_stops();
  request.stop.insert(request.stop.end(), stops.begin(), stops.end());
  if (!request.max_tokens)
    request.max_tokens = std::max(engine().target().max_model_len / context_parts, 1);
  std::optional<AnswerReader> reader;
  if (has_parts(style_, tools)) {
    request.skip_special_tokens = !style_.needs_special();
    // No two answers of a conversation have the same place, so ids are new.
    reader = answer_reader(style_, tools, plan, opening,
                           fmt::format("chat {}", conversation_.turns.size()));
  }
  return Next{std::move(request), AnswerParts(std::move(reader), style_.reasoning, has_shades())};
}

Result<Finished> ChatSession::answer(Next& next) {
  auto stream = session_->engine.submit(next.request);
  if (!stream)
    return tl::unexpected(stream.error());
  const bool terminal = output_is_terminal();
  const AnswerLook look{.safe = terminal,
                        .shaded = options_.color && has_shades(),
                        .special = !next.request.skip_special_tokens,
                        .status = moves_cursor(terminal) && !options_.quiet};
  AnswerView view(out_, engine(), next.parts, look);
  stopper_.answering(&*stream);
  const HiddenTyping hidden;
  Patience waiting(fmt::format("Reading {} tokens", next.request.prompt_tokens.size()));
  auto answer = follow(*stream, [&](const Delta& delta) {
    waiting.over();
    view.show(delta);
    if (!out_.open())
      stream->cancel();
  });
  stopper_.answering(nullptr);
  waiting.over();
  view.finish();
  return std::move(answer).map([](Completion&& whole) { return std::move(whole.end); });
}

/// Answers the last message, and goes on while answers make calls. Returns whether there is an
/// answer in the end.
Result<bool> ChatSession::take_turn() {
  for (;;) {
    auto next = next_answer();
    if (!next)
      return tl::unexpected(next.error());
    const auto end = answer(*next);
    if (!end)
      return tl::unexpected(end.error());
    const auto& calls = next->parts.calls();
    const bool called = !calls.empty() && end->reason == FinishReason::stop;
    if (!calls.empty() && end->reason == FinishReason::length)
      remark("The answer was cut short, so nothing is called: -n allows more tokens.");
    ChatMessage message = next->parts.message(called);
    const bool nothing = message.content.empty() && !called;
    if (nothing && (end->reason == FinishReason::cancelled || !calls.empty()))
      return false;
    conversation_.turns.push_back(std::move(message));
    count(*end);
    if (!called)
      return true;
    if (!tell_results(calls))
      return false;
  }
}

/// Asks for the results of an answer's calls. Returns false if these are abandoned.
bool ChatSession::tell_results(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    const auto result = typing_.result(call.name);
    if (!result) {
      remark(fmt::format("There is no result of {}: what was said counts as not said.", call.name));
      return false;
    }
    conversation_.turns.push_back(result_message(call, *result));
  }
  return true;
}

Result<bool> ChatSession::say(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    return false;
  const std::size_t before = conversation_.turns.size();
  conversation_.turns.push_back({"user", text, {}});
  auto said = take_turn();
  if (!said || !*said)
    conversation_.turns.resize(before); // The message counts as not said.
  return said;
}

/// Adds an answer to the totals, and tells its figures.
void ChatSession::count(const Finished& end) {
  ++answers_;
  tokens_ += std::uint64_t(end.usage.completion_tokens);
  decoded_ += std::uint64_t(std::max(end.usage.completion_tokens - 1, 0));
  seconds_ += end.timing.decode_seconds;
  prompt_tokens_ += std::uint64_t(end.usage.prompt_tokens);
  cached_tokens_ += std::uint64_t(end.usage.cached_tokens);
  if (!options_.quiet)
    remark(fmt::format("[{}] {}", to_string(end.reason), answer_figures(end)));
  remark_full(end);
}

/// Answers again what was said last, or this text in its place. Both stay if there is no other
/// answer.
Result<bool> ChatSession::answer_again(const std::optional<std::string>& text) {
  const std::vector<ChatMessage> before = conversation_.turns;
  const auto said_last =
      std::ranges::find(before.rbegin(), before.rend(), "user", &ChatMessage::role);
  if (said_last == before.rend() || before.back().role != "assistant")
    return fail(ErrorCode::invalid_argument, "nothing has been answered yet",
                "say something first");
  conversation_.turns.resize(std::size_t(before.rend() - said_last) - 1);
  auto said = say(text.value_or(said_last->content));
  if (!said || !*said)
    conversation_.turns = before;
  return said;
}

void ChatSession::remark_full(const Finished& end) const {
  const int context = engine().target().max_model_len;
  if (end.reason == FinishReason::length &&
      end.usage.prompt_tokens + end.usage.completion_tokens >= context)
    remark(fmt::format("The context of {} tokens is full, so the answer ends here: {}, /save FILE "
                       "keeps what was said.",
                       context,
                       options_.context_shift ? "what is said next lets the oldest messages go"
                                              : "/reset begins anew, /context-shift on lets the "
                                                "oldest messages go"));
}

} // namespace paceline::apps
