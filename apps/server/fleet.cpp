// The routing of requests to engines, and reports on the fleet.
#include "apps/server/fleet.hpp"

#include "text/json.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace paceline::apps::serve {
namespace asio = boost::asio;

Fleet::Fleet(asio::any_io_executor executor, Log& log, FleetOptions options)
    : executor_(std::move(executor)), log_(log), options_(options), controller_({}, {}) {}

Fleet::~Fleet() {
  stopping_ = true;
  replicas_.clear();
  loader_.join(); // Joining the thread closes the engines that are on it.
}

void Fleet::open(const std::vector<std::string>& names, Engine& engine) {
  placement::Model model;
  model.name = names.front();
  const Place place{group_of({engine.target().device}, {1, 1}),
                    add_model({names.front(), {}, {}}, std::move(model))};
  names_.clear();
  for (const std::string& name : names)
    names_.emplace_back(name, place.second);
  planned_ = {std::size_t(place.first)};
  wanted_.groups[std::size_t(place.first)].add(place.second);
  held_ = wanted_;
  host(place, std::shared_ptr<Engine>(&engine, [](Engine*) {}));
}

Fleet::Turn::~Turn() {
  if (!fleet_)
    return;
  fleet_->controller_.end(ticket_, fleet_->seconds(Clock::now()));
  if (!replica_->well())
    fleet_->drop(*replica_);
}

double Fleet::seconds(Clock::time_point time) const {
  return std::chrono::duration<double>(time - begin_).count();
}

std::optional<int> Fleet::find(const std::string& name) const {
  if (name.empty() && models_.size() == 1)
    return 0;
  for (const auto& [known, model] : names_)
    if (known == name)
      return model;
  return std::nullopt;
}

/// Returns the error for a name that nobody serves, or for no name if there are several models.
ApiError Fleet::unknown(const std::string& name) const {
  std::vector<std::string> known;
  for (const Served& one : served())
    known.push_back(one.name);
  const std::string hint =
      known.empty() ? "none is at the moment" : fmt::format("ask for {}", fmt::join(known, " or "));
  if (name.empty())
    return invalid_value("model", "model is missing, and there may be several: " + hint);
  return {.status = 404,
          .message = fmt::format("the model {} is not served here: {}", text::shown(name), hint),
          .param = "model",
          .code = "model_not_found"};
}

ApiError Fleet::late(int model, const placement::Dispatch& dispatch, double deadline) const {
  const double over = dispatch.finish - deadline;
  const placement::Model& costs = problem_.models[std::size_t(model)];
  return {.status = 503,
          .message = over > 0 ? fmt::format("the model {} would answer {:.2f} s later than its "
                                            "objective of {:g} s: try again later",
                                            costs.name, over, costs.objective_seconds)
                              : fmt::format("with one request more for the model {} another would "
                                            "miss its objective: try again later",
                                            costs.name),
          .code = "objective",
          .retry_after_seconds = int(std::clamp(std::ceil(over), 1.0, 3600.0))};
}

/// Returns why a model is not there. The reason is told only to whoever loads models, and to the
/// log: it may name files of the server's.
ApiError Fleet::absent(int model, bool for_operator) const {
  const Entry& entry = models_[std::size_t(model)];
  if (!entry.failure)
    return unknown(entry.model.name);
  ApiError why = api_error(*entry.failure); // Hints are for the operator only.
  why.message =
      fmt::format("the model {} could not be loaded: {}", entry.model.name,
                  for_operator ? why.message : "the server's log says why, try again later");
  why.status = 503;
  why.param = "model";
  why.code = "model_unavailable";
  return why;
}

asio::awaitable<ApiResult<Fleet::Turn>> Fleet::turn(std::string name, Clock::time_point arrived,
                                                    Clock::time_point latest,
                                                    std::function<bool()> given_up) {
  const auto model = find(name);
  if (!model)
    co_return refuse(unknown(name));
  controller_.note(*model, seconds(arrived));
  for (;;) {
    const double deadline =
        options_.refuse_late
            ? seconds(arrived) + problem_.models[std::size_t(*model)].objective_seconds
            : std::numeric_limits<double>::infinity();
    const auto [dispatch, ticket] = controller_.begin(*model, seconds(Clock::now()), deadline);
    if (dispatch.outcome == placement::Dispatch::Outcome::accepted)
      co_return Turn(*this, ticket, replicas_.at({dispatch.group, *model}));
    if (dispatch.outcome == placement::Dispatch::Outcome::late) {
      late_[models_[std::size_t(*model)].model.name] += 1;
      co_return refuse(late(*model, dispatch, deadline));
    }
    if (!wanted_.hosts(*model)) // No move, under way or still to come, gives it a place.
      co_return refuse(absent(*model, false));
    if (stopping_ || given_up())
      co_return refuse(shutting_down());
    if (Clock::now() >= latest)
      co_return refuse(took_too_long());
    co_await changed(latest);
  }
}

ApiResult<std::shared_ptr<Replica>> Fleet::any(const std::string& name) const {
  const auto model = find(name);
  if (!model)
    return refuse(unknown(name));
  for (const auto& [place, replica] : replicas_)
    if (place.second == *model)
      return replica;
  return refuse(absent(*model, false));
}

asio::awaitable<void> Fleet::changed(Clock::time_point until) {
  asio::steady_timer timer(executor_, until);
  waiting_.insert(&timer);
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  waiting_.erase(&timer);
}

void Fleet::wake() {
  for (asio::steady_timer* timer : waiting_)
    timer->cancel();
}

void Fleet::stop() {
  stopping_ = true;
  wake();
}

std::vector<Fleet::Served> Fleet::served() const {
  std::vector<Served> all;
  for (const auto& [name, model] : names_) {
    Served one{name, std::nullopt, {}};
    for (const auto& [place, replica] : replicas_)
      if (place.second == model) {
        one.max_model_len = replica->max_model_len();
        one.devices.push_back(devices_of(place.first));
      }
    if (!one.devices.empty() || wanted_.hosts(model))
      all.push_back(std::move(one));
  }
  return all;
}

Vocabularies Fleet::vocabularies() const {
  Vocabularies sizes;
  for (const auto& [place, replica] : replicas_) {
    for (const auto& [name, model] : names_)
      if (model == place.second)
        sizes[name] = replica->vocabulary();
    if (models_.size() == 1)
      sizes[""] = replica->vocabulary();
  }
  return sizes;
}

std::vector<std::shared_ptr<Replica>> Fleet::replicas() const {
  std::vector<std::shared_ptr<Replica>> all;
  for (const auto& [place, replica] : replicas_)
    all.push_back(replica);
  return all;
}

bool Fleet::well() const {
  return replicas_.empty() || std::any_of(replicas_.begin(), replicas_.end(),
                                          [](const auto& entry) { return entry.second->well(); });
}

std::string Fleet::devices_of(int group) const {
  std::vector<std::string> names;
  for (const int device : held_.groups[std::size_t(group)].devices)
    names.push_back(devices_[std::size_t(device)]);
  return fmt::format("{}", fmt::join(names, "+"));
}

ServerMetrics::Placed Fleet::counts() const {
  ServerMetrics::Placed placed{{}, {late_.begin(), late_.end()}, {moves_.begin(), moves_.end()}};
  const double now = seconds(Clock::now());
  for (std::size_t group = 0; group < held_.groups.size(); ++group)
    placed.queues.push_back({devices_of(int(group)), controller_.queue_seconds(int(group), now),
                             controller_.open(int(group))});
  return placed;
}

} // namespace paceline::apps::serve
