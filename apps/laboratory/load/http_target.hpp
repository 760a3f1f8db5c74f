// A load on a server that speaks OpenAI's API.
#pragma once

#include "apps/laboratory/load/event_stream.hpp"
#include "apps/laboratory/load/server_client.hpp"
#include "apps/laboratory/load/target.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <deque>

namespace paceline::apps::load {

enum class Api { completions, chat };

class HttpTarget final : public Target {
public:
  /// request: the body of each request without prompt and length.
  HttpTarget(HttpOptions options, Api api, boost::json::object request);
  ~HttpTarget() override;

  /// Finds the host, and asks for the first of its models if `name` is empty; then requests may
  /// come. Errors: there is none, or it refuses.
  Result<void> open(std::string name);
  const std::string& model() const { return model_; }
  /// Returns the ids of a text by the server's /tokenize; empty if the server has none.
  std::vector<TokenId> tokenize(const std::string& text);

  double now() const override;
  void send(std::size_t item, const Item& what) override;
  std::optional<Event> next(std::optional<double> until) override;
  void wake() override;
  void cancel() override;
  void refresh_state() override;
  /// Returns what its /metrics said last; it is read every second.
  std::optional<TargetState> state() override { return state_; }

private:
  std::string body_of(const Item& item) const;
  boost::asio::awaitable<void> follow(std::size_t item, std::string body);
  boost::asio::awaitable<void> watch();
  boost::asio::awaitable<void> look();
  void begin(boost::asio::awaitable<void> work);
  void end(std::size_t item, const Result<unsigned>& answer, const EventStream& events,
           const std::string& refusal, int parts);

  ServerClient server_;
  Api api_;
  boost::json::object request_;
  std::string model_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  boost::asio::steady_timer looks_; ///< Timer between two readings of the server's metrics.
  bool watching_ = false;
  std::optional<TargetState> state_;
  int open_ = 0; ///< Coroutines under way.
  int sent_ = 0; ///< Requests that are not over yet.
  std::deque<Event> events_;
  bool waked_ = false;
};

} // namespace paceline::apps::load
