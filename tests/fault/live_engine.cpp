#include "tests/fault/live_engine.hpp"

#include "actors/request_check.hpp"
#include "actors/request_sink.hpp"

#include <array>
#include <stdexcept>

namespace paceline::testing {

using namespace std::chrono_literals;

void LiveAnswer::deliver(Event event) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto* delta = std::get_if<Delta>(&event))
      tokens_.insert(tokens_.end(), delta->tokens.begin(), delta->tokens.end());
    else if (const auto* end = std::get_if<Finished>(&event))
      ends_.push_back(*end);
  }
  news_.notify_all();
  if (came_)
    came_(event);
}

bool LiveAnswer::ended() const {
  const std::lock_guard lock(mutex_);
  return !ends_.empty();
}

const Finished& LiveAnswer::wait() {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [this] { return !ends_.empty(); });
  return ends_.front();
}

std::size_t LiveAnswer::count() const {
  const std::lock_guard lock(mutex_);
  return tokens_.size();
}

const char* to_string(Part part) {
  constexpr std::array names{"scheduler", "draft", "target", "sampler", "KV cache"};
  return names[std::size_t(part)];
}

LiveEngine::LiveEngine(const EngineOptions& options, bool supervised)
    : runtime_(std::make_unique<actors::Runtime>(std::nullopt)) {
  auto opened = actors::open_context(options, runtime_->time(), nullptr);
  if (!opened)
    throw std::runtime_error(opened.error().text());
  opened_ = std::move(*opened);
  if (supervised)
    start();
  else
    start_unsupervised();
}

void LiveEngine::start() {
  actors::apart_from_caller([this] {
    supervisor_ = messages::spawn<actors::Supervisor>(runtime_->system(), opened_.parts);
  });
  known_ = handles();
}

/// Starts the actors as the supervisor does, without watching them.
void LiveEngine::start_unsupervised() {
  actors::apart_from_caller([this] {
    auto& system = runtime_->system();
    const actors::EngineParts& p = opened_.parts;
    known_.version = 1;
    known_.facade = messages::spawn<actors::Facade>(system, p.facade);
    known_.scheduler = messages::spawn<actors::Scheduler>(system, p.scheduler);
    if (p.draft)
      known_.draft = messages::spawn<actors::DraftModel>(system, *p.draft, p.target.device);
    known_.stages = {messages::spawn<actors::TargetModel>(system, p.target)};
    known_.sampler = messages::spawn<actors::Sampler>(system, p.sampler);
    known_.kv_cache = messages::spawn<actors::KvCache>(
        system, scheduling::PageManager::Config{p.page_pools(), p.telemetry});
    messages::tell(known_.stages.front(), known_);
    messages::tell(known_.sampler, known_);
    messages::tell(known_.scheduler, known_);
    messages::tell(known_.facade, known_);
  });
}

LiveEngine::~LiveEngine() {
  runtime_->ask<messages::Drained>(known_.facade, messages::Drain{0ms}, 10s);
  if (supervisor_)
    caf::anon_send_exit(supervisor_, caf::exit_reason::user_shutdown);
  else
    for (const auto& actor :
         {caf::actor_cast<caf::actor>(known_.scheduler), caf::actor_cast<caf::actor>(known_.draft),
          caf::actor_cast<caf::actor>(known_.stages.front()),
          caf::actor_cast<caf::actor>(known_.sampler), caf::actor_cast<caf::actor>(known_.kv_cache),
          caf::actor_cast<caf::actor>(known_.facade)})
      if (actor)
        caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  supervisor_ = nullptr;
  known_ = {};
  runtime_->await_actors();
  opened_.closer->close();
}

void LiveEngine::submit(const Request& request, std::shared_ptr<LiveAnswer> answer) {
  auto checked = actors::check_request(request, opened_, 17);
  if (!checked)
    throw std::runtime_error(checked.error().text());
  auto spec = std::make_shared<speculation::SequenceSpec>(*checked->spec);
  spec->id = ++requests_;
  checked->spec = std::move(spec);
  checked->sink = std::make_shared<actors::RequestSink>(std::move(answer));
  messages::tell(known_.facade, std::move(*checked));
}

std::shared_ptr<LiveAnswer> LiveEngine::submit(const Request& request) {
  auto answer = std::make_shared<LiveAnswer>();
  submit(request, answer);
  return answer;
}

void LiveEngine::cancel(std::uint64_t request) {
  messages::tell(known_.facade, messages::Cancel{request});
}

messages::ActorHandles LiveEngine::handles() {
  if (!supervisor_)
    return known_;
  auto now = runtime_->ask<messages::ActorHandles>(supervisor_, messages::Ping{}, 30s);
  if (!now)
    throw std::runtime_error("the engine has ended");
  return *now;
}

std::function<void()> LiveEngine::aim(Part part) {
  const messages::ActorHandles now = handles();
  const std::array actors{
      caf::actor_cast<caf::actor>(now.scheduler), caf::actor_cast<caf::actor>(now.draft),
      caf::actor_cast<caf::actor>(now.stages.front()), caf::actor_cast<caf::actor>(now.sampler),
      caf::actor_cast<caf::actor>(now.kv_cache)};
  const caf::actor victim = actors[std::size_t(part)];
  if (!victim)
    return nullptr;
  return [victim] { caf::anon_send_exit(victim, caf::exit_reason::kill); };
}

bool LiveEngine::kill(Part part) {
  const auto shoot = aim(part);
  if (shoot)
    shoot();
  return shoot != nullptr;
}

Metrics LiveEngine::metrics() {
  runtime_->ask<messages::Pong>(handles().kv_cache, messages::Ping{}, 10s);
  return opened_.parts.telemetry->snapshot();
}

} // namespace paceline::testing
