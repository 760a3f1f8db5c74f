#include "apps/server/service.hpp"

#include "apps/server/threads.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <ctime>
#include <fmt/format.h>
#include <malloc.h>

namespace paceline::apps::serve {
namespace asio = boost::asio;

Service::Service(asio::any_io_executor executor, const Settings& settings, Keys keys, Keys admin)
    : executor_(std::move(executor)), settings_(settings), keys_(std::move(keys)),
      admin_keys_(std::move(admin)), log_(settings.log_level, settings.log_json),
      metrics_(settings.model_names.empty() ? "" : settings.model_names.front()),
      fleet_(executor_, log_, settings.fleet), started_(std::time(nullptr)),
      memory_(settings.max_request_memory,
              [this] { asio::post(aside_long_, [] { malloc_trim(0); }); }) {}

void Service::open() {
  if (state_ == State::loading)
    state_ = State::ready;
  changed_();
}

void Service::drain(std::function<void()> idle) {
  state_ = State::draining;
  changed_();
  idle_ = std::move(idle);
  if (answering_ == 0 && idle_)
    std::exchange(idle_, nullptr)();
}

void Service::cancel_all() {
  for (Admission* answers : running_)
    answers->cancel_();
}

Service::Answering::Answering(Service& service, Protocol protocol)
    : service_(&service), protocol_(protocol) {
  ++service.answering_;
  service.over_grpc_ += protocol == Protocol::grpc;
}

Service::Answering::~Answering() {
  service_->over_grpc_ -= protocol_ == Protocol::grpc;
  service_->changed_(); // An engine may have failed, or work again.
  if (--service_->answering_ == 0 && service_->idle_)
    std::exchange(service_->idle_, nullptr)();
}

Service::Admission::Admission(Service& service, std::function<void()> cancel, int count)
    : service_(&service), cancel_(std::move(cancel)), count_(count) {
  service.open_ += count;
  service.running_.insert(this);
}

Service::Admission::~Admission() {
  service_->open_ -= count_;
  service_->running_.erase(this);
}

std::optional<ApiError> Service::check_room(int count) const {
  if (open_ + count <= settings_.max_open)
    return std::nullopt;
  return ApiError{.status = 429,
                  .message = fmt::format("{} answers are under way or waiting, and {} is the most: "
                                         "try again later",
                                         open_, settings_.max_open),
                  .code = "overloaded",
                  .retry_after_seconds = 1};
}

std::chrono::steady_clock::time_point
Service::latest(std::chrono::steady_clock::time_point arrived) const {
  const auto limit = settings_.request_timeout;
  return limit.count() > 0 ? arrived + limit : std::chrono::steady_clock::time_point::max();
}

std::chrono::steady_clock::time_point
Service::next_write(std::chrono::steady_clock::time_point last) const {
  const std::chrono::nanoseconds beat =
      std::clamp(limits::write_beat * open_ / limits::busy_answers, limits::write_beat,
                 limits::write_beat_max);
  return last + beat - last.time_since_epoch() % beat;
}

asio::awaitable<void> Service::aside(std::size_t bytes, std::function<void()> work) {
  if (bytes <= limits::encode_here_bytes) {
    work();
    co_return;
  }
  co_await run_on(bytes <= limits::aside_short_bytes ? aside_ : aside_long_, executor_,
                  std::move(work));
}

asio::awaitable<Result<void>> Service::check_form(const Engine& engine, const Constraint& form) {
  Result<void> fits;
  co_await run_on(aside_forms_, executor_, [&] { fits = engine.check(form); });
  co_return fits;
}

std::string Service::metrics_text() const {
  const auto replicas = fleet_.replicas();
  std::vector<ServerMetrics::Of> engines;
  for (const auto& replica : replicas)
    engines.push_back({&replica->metrics(), replica->engine().metrics()});
  const auto placed = fleet_.manages() ? std::optional(fleet_.counts()) : std::nullopt;
  return metrics_.text(engines,
                       {.connections = connections - grpc_connections,
                        .requests = answering_ - over_grpc_,
                        .grpc_connections = grpc_connections,
                        .grpc_requests = over_grpc_,
                        .request_memory = memory_.used()},
                       placed ? &*placed : nullptr);
}

} // namespace paceline::apps::serve
