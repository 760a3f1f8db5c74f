// A hub of one model in this process, on a port of its own, which fails as it is told.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace paceline::testing {

struct HubRequest {
  std::string target;
  std::string token; ///< The whole "Authorization" header.
  std::string range; ///< The whole "Range" header.
  int number = 0;    ///< Requests of this target before.
};

struct HubAnswer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};
  /// The connection ends after so many bytes of the body; or it is silent until the client goes.
  std::optional<std::size_t> cut{};
  bool silent = false;
};

class HubServer {
public:
  /// Is called with each request and the answer that it would get, to change it.
  using Change = std::function<void(const HubRequest&, HubAnswer&)>;

  explicit HubServer(Change change = {});
  ~HubServer();
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  /// Adds a file of org/name, before the first request. large: listed with its SHA-256, as in LFS;
  /// others have git's name alone.
  void add(const std::string& path, std::string content, bool large = true);
  /// The list of files, as the hub gives it.
  std::string list() const;
  std::string url(const std::string& host = "127.0.0.1") const;

  /// All that came, in order.
  std::vector<HubRequest> requests() const;
  /// Returns the requests for a file.
  std::vector<HubRequest> requests(const std::string& path) const;
  /// Blocks until an answer is silent.
  void await_silence();

private:
  struct File {
    std::string content;
    bool large;
  };
  void accept();
  void serve(boost::asio::ip::tcp::socket socket);
  HubAnswer answer(const HubRequest& request) const;

  std::map<std::string, File> files_;
  Change change_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HubRequest> requests_;
  bool silent_ = false;
  bool closing_ = false;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::thread thread_; // Requests are taken one after the other, each on a connection of its own.
};

} // namespace paceline::testing
