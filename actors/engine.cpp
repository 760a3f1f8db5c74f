#include "actors/engine.hpp"

#include "actors/limits.hpp"
#include "actors/option_check.hpp"
#include "actors/other_machines.hpp"
#include "actors/request_check.hpp"
#include "actors/request_sink.hpp"
#include "actors/tokenizer.hpp"
#include "messages/prepared.hpp"
#include "text/chat_tokens.hpp"

#include <algorithm>
#include <random>
#include <thread>

namespace paceline {

using namespace actors;

Engine::Impl::Impl(EngineOptions options, const OtherMachines* machines)
    : options_(std::move(options)),
      trace_(std::make_shared<base::Trace>(
          options_.trace_file.empty() ? 0 : base::limits::trace_events_max)) {
  Runtime::Extend extend;
  if (machines && needs_other_machines(options_))
    extend = [&](caf::actor_system_config& config) { machines->join(config, options_); };
  runtime_ = std::make_unique<Runtime>(options_.virtual_time ? std::optional(options_.schedule_seed)
                                                             : std::nullopt,
                                       extend, base::Log(options_.log));
  callbacks_ = std::make_shared<base::Callbacks>(
      options_.virtual_time ? base::Callbacks::Mode::on_request : base::Callbacks::Mode::threads);
  time_ = runtime_->time();
}

Result<std::unique_ptr<Engine::Impl>> Engine::Impl::open(EngineOptions options,
                                                         const OtherMachines* machines) {
  std::unique_ptr<Impl> impl(new Impl(std::move(options), machines));
  auto opened = open_context(impl->options_, impl->runtime_->time(), impl->trace_, machines,
                             &impl->runtime_->system());
  if (!opened)
    return tl::unexpected(opened.error());
  impl->context = std::move(*opened);
  if (auto started = impl->start(); !started)
    return tl::unexpected(started.error());
  return impl;
}

Result<void> Engine::Impl::start() {
  apart_from_caller(
      [this] { supervisor_ = messages::spawn<Supervisor>(runtime_->system(), context.parts); });
  const auto handles = runtime_->ask<messages::ActorHandles>(supervisor_, messages::Ping{},
                                                             std::chrono::seconds(30));
  if (!handles)
    return fail(ErrorCode::internal, "the engine's actors did not start");
  facade_ = std::make_shared<const messages::FacadeActor>(handles->facade);
  admission_.emplace(context.max_open);
  opened_ = time_->now();
  return {};
}

/// Closes the engine. If memory or a thread is lacking it tries again until that is there, since
/// nothing can be thrown here.
Engine::Impl::~Impl() {
  constexpr std::chrono::milliseconds pause(10);
  for (;; std::this_thread::sleep_for(pause))
    try {
      (void)shutdown(std::chrono::milliseconds(0));
      return;
    } catch (const std::exception&) {
    }
}

Result<void> Engine::Impl::shutdown(std::chrono::milliseconds drain) {
  const std::lock_guard once(shutting_down_);
  if (!runtime_)
    return {};
  drain = std::clamp(drain, std::chrono::milliseconds(0), limits::time_max);
  if (facade_) {
    const auto limit = drain + std::chrono::seconds(10);
    runtime_->ask<messages::Drained>(*facade_, messages::Drain{drain}, limit);
    const std::lock_guard alone(closing_);
    facade_.reset();
  }
  if (supervisor_) {
    caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
    supervisor_ = nullptr;
  }
  // The lanes are closed before the actor system goes, since their last steps still name actors.
  runtime_->await_actors();
  if (!lanes_closed())
    leave_behind();
  // CAF takes memory while its system goes, and ends the process if the caller's thread may not
  // have any, so the system goes on a thread of its own. In virtual time the caller's thread is one
  // of the system's.
  if (options_.virtual_time)
    runtime_.reset();
  else
    std::thread([this] { runtime_.reset(); }).join();
  return trace_->keeps() ? trace_->write(options_.trace_file) : Result<void>();
}

bool Engine::Impl::lanes_closed() {
  const auto patience = options_.faults.stall_patience;
  return !context.closer ||
         context.closer->close(patience.count() > 0 ? std::optional(patience) : std::nullopt);
}

/// Keeps the parts of an engine whose lane never ends its piece: all that the piece uses, and the
/// actors that its step names, must stay.
void Engine::Impl::leave_behind() {
  using Kept = std::pair<std::unique_ptr<Runtime>, EngineParts>;
  static std::mutex mutex;
  static auto& kept = *new std::vector<Kept>; // Never destroyed, not even when the process ends.
  const std::lock_guard lock(mutex);
  kept.emplace_back(std::move(runtime_), context.parts);
}

std::uint64_t Engine::Impl::draw_seed() {
  if (options_.virtual_time) // No input of a simulation comes from outside.
    return options_.schedule_seed * 1'000'003 + requests_;
  std::random_device device;
  return std::uint64_t(device()) << 32 | device();
}

Result<Stream> Engine::Impl::submit(const Request& request) {
  if (!process.here())
    return fail(ErrorCode::unavailable, "the engine belongs to the process that opened it",
                "fork before it is opened, or run a program of its own in the child");
  const std::shared_lock open(closing_);
  if (!facade_)
    return fail(ErrorCode::unavailable, "the engine is shut down");
  auto place = admission_->enter();
  if (!place)
    return fail(ErrorCode::overloaded, "the admission queue is full",
                "try again in a second, or raise EngineOptions::max_waiting");
  auto checked = check_request(request, context, draw_seed());
  if (!checked)
    return tl::unexpected(checked.error());
  const std::uint64_t id = ++requests_;
  auto spec = std::make_shared<speculation::SequenceSpec>(*checked->spec);
  spec->id = id;
  checked->spec = std::move(spec);
  auto stream = make_stream(id);
  checked->sink = std::make_shared<RequestSink>(
      judging_repeats(stream, *checked->spec, request, context), std::move(*place));
  messages::tell(*facade_, std::move(*checked));
  return Stream(std::move(stream));
}

std::shared_ptr<Stream::Impl> Engine::Impl::make_stream(std::uint64_t id) {
  const std::weak_ptr<const messages::FacadeActor> facade = facade_;
  auto cancel = [facade, message = std::make_shared<messages::Prepared>(messages::Cancel{id})] {
    if (const auto alive = facade.lock())
      message->tell(*alive);
  };
  if (!runtime_->is_virtual())
    return std::make_shared<Stream::Impl>(id, std::move(cancel), callbacks_);
  // Callers' functions run while nothing of the engine is below them, since they may end it.
  auto advance = [this, facade, callbacks = callbacks_](const std::function<bool()>& reached,
                                                        Stream::Impl::Time time) {
    const auto until = time ? std::optional(time_->now() + *time) : std::nullopt;
    for (;;) {
      callbacks->run_pending();
      const auto alive = facade.lock(); // The engine lives as long as this.
      if (reached() || !alive)
        return reached();
      const auto news = [&] { return reached() || callbacks->pending(); };
      if (!(until ? runtime_->advance_until(news, *until) : runtime_->advance_until(news)))
        return false;
    }
  };
  return std::make_shared<Stream::Impl>(id, std::move(cancel), callbacks_, std::move(advance));
}

/// Runs callers' functions while the engine is not held, since they may end it.
bool Engine::Impl::run_until(const std::function<bool()>& reached, base::Duration until) {
  for (;;) {
    callbacks_->run_pending();
    const std::shared_lock open(closing_);
    if (reached() || !facade_)
      return reached();
    const auto news = [&] { return reached() || callbacks_->pending(); };
    if (!runtime_->advance_until(news, opened_ + until))
      return false;
  }
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&& other) noexcept {
  const Engine old(std::move(*this)); // This closes the engine.
  impl_ = std::move(other.impl_);
  return *this;
}
// A forked child ends nothing: the threads that would have to end are the other process'.
Engine::~Engine() {
  if (impl_ && !impl_->process.here())
    (void)impl_.release();
}

Result<Stream> Engine::submit(const Request& request) {
  return impl_->submit(request);
}

Result<Completion> Engine::complete(const Request& request) {
  auto stream = impl_->submit(request);
  if (!stream)
    return tl::unexpected(stream.error());
  Completion whole;
  while (auto event = stream->next()) {
    if (auto* delta = std::get_if<Delta>(&*event)) {
      whole.add(*delta);
    } else if (auto* end = std::get_if<Finished>(&*event)) {
      whole.end = std::move(*end);
      return whole;
    }
  }
  whole.end.reason = FinishReason::error;
  whole.end.error = Error{ErrorCode::unavailable, "the engine was closed"};
  return whole;
}

std::vector<TokenId> Engine::tokenize(const std::string& text, bool add_special,
                                      bool parse_special) const {
  return impl_->context.tokenizer->encode_as({add_special, parse_special, {}}, text);
}
std::string Engine::detokenize(const std::vector<TokenId>& tokens) const {
  return impl_->context.tokenizer->decode(tokens);
}
Result<void> Engine::check(const Constraint& form) const {
  return impl_->context.constraints->compile(form).map([](const auto&) {});
}
std::string Engine::token_bytes(TokenId token, bool skip_special) const {
  return impl_->context.tokenizer->bytes(token, !skip_special);
}
std::string Engine::token_name(TokenId token) const {
  return impl_->context.tokenizer->name(token);
}
Result<std::string> Engine::render_chat(const std::vector<ChatMessage>& messages,
                                        const ChatOptions& how) const {
  return text::chat_text(impl_->context.chat, messages, local_time(), how);
}
Result<std::vector<TokenId>> Engine::chat_tokens(const std::vector<ChatMessage>& messages,
                                                 const ChatOptions& how) const {
  return text::chat_tokens(*impl_->context.tokenizer, impl_->context.chat, messages, local_time(),
                           how);
}
std::vector<std::string> Engine::chat_stops() const {
  return impl_->context.chat.stops();
}
const std::string& Engine::chat_template() const {
  return impl_->context.chat.source();
}
ModelInfo Engine::target() const {
  const EngineContext& context = impl_->context;
  return context.parts.telemetry->target_moved ? *context.standby : context.target;
}
std::optional<ModelInfo> Engine::draft_model() const {
  return impl_->context.draft;
}
const std::vector<std::string>& Engine::drafters() const {
  return impl_->context.drafters;
}
Metrics Engine::metrics() const {
  if (!impl_->process.here())
    return {};
  const actors::EngineParts& parts = impl_->context.parts;
  Metrics metrics = parts.telemetry->snapshot();
  metrics.callback_failures = impl_->callback_failures();
  metrics.full_length_requests =
      metrics.target_moved ? parts.standby->full_length : parts.target.full_length;
  // Steps that retire give pages back without a message to the cache manager.
  std::size_t out = parts.standby ? parts.standby->pool->ledger().out : 0;
  for (const auto& pool : parts.page_pools())
    out += pool.pages->ledger().out;
  const std::size_t named = parts.telemetry->kv_pages_used + parts.telemetry->kv_pages_cached;
  metrics.kv_pages_quarantined = out - std::min(out, named);
  return metrics;
}
std::chrono::nanoseconds Engine::now() const {
  return impl_->now();
}
bool Engine::run_until(const std::function<bool()>& reached, std::chrono::nanoseconds until) {
  return impl_->run_until(reached, until);
}
Result<void> Engine::shutdown(std::chrono::milliseconds drain) {
  return impl_->process.here() ? impl_->shutdown(drain) : Result<void>();
}

} // namespace paceline
