#include "apps/server/service.hpp"

#include "apps/server/threads.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <ctime>
#include <fmt/format.h>
#include <malloc.h>

namespace paceline::apps::serve {
namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

Service::Service(asio::any_io_executor executor, const Settings& settings, Keys keys, Keys admin)
    : executor_(std::move(executor)), settings_(settings), keys_(std::move(keys)),
      admin_keys_(std::move(admin)), log_(settings.log_level, settings.log_json),
      metrics_(settings.model_names.empty() ? "" : settings.model_names.front()),
      fleet_(executor_, log_, settings.fleet), started_(std::time(nullptr)),
      door_(settings.max_open), memory_(settings.max_request_memory, [this] {
        asio::post(aside_long_, [] { malloc_trim(0); });
      }) {}

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
  for (Admission* request : running_)
    request->cancel();
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

Service::Admission::Admission(Service& service, base::Admission::Place place)
    : service_(&service), place_(std::move(place)), latest_(Clock::time_point::max()) {
  if (const auto limit = service.settings_.request_timeout; limit.count() > 0)
    latest_ = Clock::now() + limit;
  service.running_.insert(this);
}

Service::Admission::~Admission() {
  service_->running_.erase(this);
}

asio::awaitable<ApiResult<Fleet::Turn>> Service::Admission::turn(std::string model,
                                                                 Clock::time_point arrived) {
  on_cancel([this] { service_->fleet_.wake(); });
  auto found = co_await service_->fleet_.turn(std::move(model), arrived, latest_,
                                              [this] { return cancelled_; });
  action_ = nullptr;
  co_return found;
}

void Service::Admission::cancel() {
  cancelled_ = true;
  if (action_)
    action_();
}

void Service::Admission::on_cancel(std::function<void()> action) {
  action_ = std::move(action);
  if (cancelled_ && action_)
    action_();
}

std::optional<std::chrono::milliseconds> Service::Admission::time_left() const {
  if (latest_ == Clock::time_point::max())
    return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(latest_ - Clock::now());
}

ApiResult<std::unique_ptr<Service::Admission>> Service::admit(int count) {
  if (auto place = door_.enter(count))
    return std::make_unique<Admission>(*this, std::move(*place));
  return refuse({.status = 429,
                 .message = fmt::format("{} answers are under way or waiting, and {} is the most: "
                                        "try again later",
                                        door_.taken(), door_.most()),
                 .code = "overloaded",
                 .retry_after_seconds = 1});
}

std::chrono::steady_clock::time_point
Service::next_write(std::chrono::steady_clock::time_point last) const {
  const std::chrono::nanoseconds beat =
      std::clamp(limits::write_beat * door_.taken() / limits::busy_answers, limits::write_beat,
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
