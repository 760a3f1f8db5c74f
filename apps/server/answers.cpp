#include "apps/server/answers.hpp"

#include "apps/server/errors.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace paceline::apps::serve {
namespace asio = boost::asio;

struct Answers::Shared {
  explicit Shared(const asio::any_io_executor& own) : executor(own), news(own), pause(own) {}

  asio::any_io_executor executor;
  asio::steady_timer news;  ///< Timer of `wait`; cancelled when there is an event.
  asio::steady_timer pause; ///< Timer of `rest`; cancelled when a stream has ended.
  std::vector<AsyncStream> streams;
  std::deque<Item> ready;
  std::size_t open = 0; ///< Streams whose end has not been taken.
  int ending = 0;       ///< Ended ones; may be counted before or after `open`.
};

Answers::Answers(const asio::any_io_executor& executor)
    : shared_(std::make_shared<Shared>(executor)) {}

Answers::~Answers() {
  shared_->streams.clear(); // This cancels them; nobody reads what handlers still bring.
}

void Answers::add(Stream stream) {
  shared_->streams.emplace_back(shared_->executor, std::move(stream));
  ++shared_->open;
  shared_->streams.back().on_end([kept = std::weak_ptr(shared_)] {
    if (const auto shared = kept.lock()) {
      ++shared->ending;
      shared->pause.cancel();
    }
  });
  listen(shared_, shared_->streams.size() - 1);
}

void Answers::listen(const std::shared_ptr<Shared>& shared, std::size_t index) {
  shared->streams[index].async_next([shared, index](std::optional<Event> event) {
    shared->ready.push_back({index, event ? std::move(*event) : engine_closed()});
    shared->news.cancel();
  });
}

std::optional<Answers::Item> Answers::try_next() {
  if (shared_->ready.empty())
    return std::nullopt;
  Item item = std::move(shared_->ready.front());
  shared_->ready.pop_front();
  if (std::holds_alternative<Finished>(item.event)) {
    --shared_->open;
    --shared_->ending;
  } else {
    listen(shared_, item.index);
  }
  return item;
}

asio::awaitable<std::optional<Answers::Item>> Answers::next() {
  co_await wait(asio::steady_timer::time_point::max());
  co_return try_next();
}

asio::awaitable<bool> Answers::wait(std::chrono::steady_clock::time_point until) {
  const auto shared = shared_;
  const auto settled = [&] { return !shared->ready.empty() || shared->open == 0; };
  while (!settled() && std::chrono::steady_clock::now() < until) {
    shared->news.expires_at(until);
    co_await shared->news.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  co_return settled();
}

asio::awaitable<void> Answers::rest(std::chrono::steady_clock::time_point until) {
  const auto shared = shared_;
  if (shared->ending > 0)
    co_return;
  shared->pause.expires_at(until);
  co_await shared->pause.async_wait(asio::as_tuple(asio::use_awaitable));
}

void Answers::cancel() {
  for (AsyncStream& stream : shared_->streams)
    stream.cancel();
}

} // namespace paceline::apps::serve
