#include "tests/apps/hub_server.hpp"

#include "models/checkpoint/digest.hpp"

#include <algorithm>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

namespace paceline::testing {
namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace json = boost::json;
using asio::ip::tcp;

namespace {

constexpr std::string_view listing = "/api/models/org/name/tree/";
constexpr std::string_view contents = "/org/name/resolve/";

std::string sha256(const std::string& text) {
  models::Digest digest;
  digest.add(text);
  return digest.hex();
}

std::string git_name(const std::string& text) {
  models::Digest digest(models::Digest::Algorithm::sha1);
  digest.add("blob " + std::to_string(text.size()) + std::string(1, '\0') + text);
  return digest.hex();
}

} // namespace

HubServer::HubServer(Change change)
    : change_(std::move(change)), acceptor_(io_, {asio::ip::address_v4::loopback(), 0}),
      thread_([this] { accept(); }) {}

HubServer::~HubServer() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  boost::system::error_code ignored;
  tcp::socket last(io_);
  last.connect(acceptor_.local_endpoint(), ignored); // ends the accept
  last.close(ignored);
  thread_.join();
}

void HubServer::add(const std::string& path, std::string content, bool large) {
  files_[path] = {std::move(content), large};
}

std::string HubServer::url(const std::string& host) const {
  return "http://" + host + ":" + std::to_string(acceptor_.local_endpoint().port());
}

std::vector<HubRequest> HubServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::vector<HubRequest> HubServer::requests(const std::string& path) const {
  auto all = requests();
  std::erase_if(all, [&](const HubRequest& request) {
    return !request.target.starts_with(contents) || !request.target.ends_with("/" + path);
  });
  return all;
}

void HubServer::await_silence() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return silent_; });
}

std::string HubServer::list() const {
  json::array list{{{"type", "directory"}, {"oid", "x"}, {"size", 0}, {"path", "folder"}}};
  for (const auto& [path, file] : files_) {
    json::object entry{{"type", "file"},
                       {"oid", git_name(file.content)},
                       {"size", file.content.size()},
                       {"path", path}};
    if (file.large)
      entry["lfs"] = {{"oid", sha256(file.content)}, {"size", file.content.size()}};
    list.push_back(std::move(entry));
  }
  return json::serialize(list);
}

HubAnswer HubServer::answer(const HubRequest& request) const {
  if (request.target.starts_with(listing))
    return {.body = list()};
  const auto slash = request.target.find('/', contents.size());
  const auto file = request.target.starts_with(contents) && slash != std::string::npos
                        ? files_.find(request.target.substr(slash + 1))
                        : files_.end();
  if (file == files_.end())
    return {.status = 404};
  const std::string& all = file->second.content;
  if (request.range.empty())
    return {.body = all};
  const std::size_t from = std::stoull(request.range.substr(request.range.find('=') + 1));
  if (from >= all.size())
    return {.status = 416};
  return {.status = 206,
          .headers = {{"Content-Range", "bytes " + std::to_string(from) + "-" +
                                            std::to_string(all.size() - 1) + "/" +
                                            std::to_string(all.size())}},
          .body = all.substr(from)};
}

void HubServer::accept() {
  for (;;) {
    tcp::socket socket(io_);
    boost::system::error_code failed;
    acceptor_.accept(socket, failed);
    {
      const std::lock_guard lock(mutex_);
      if (closing_)
        return;
    }
    serve(std::move(socket));
  }
}

void HubServer::serve(tcp::socket socket) {
  boost::beast::flat_buffer buffer;
  http::request<http::empty_body> head;
  boost::system::error_code failed;
  http::read(socket, buffer, head, failed);
  if (failed)
    return;
  HubRequest request{std::string(head.target()), std::string(head[http::field::authorization]),
                     std::string(head[http::field::range])};
  {
    const std::lock_guard lock(mutex_);
    request.number = int(std::ranges::count(requests_, request.target, &HubRequest::target));
    requests_.push_back(request);
  }
  HubAnswer reply = answer(request);
  if (change_)
    change_(request, reply);
  std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " X\r\nConnection: close\r\n";
  for (const auto& [name, value] : reply.headers)
    text += name + ": " + value + "\r\n";
  text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n";
  text += reply.body.substr(0, reply.cut.value_or(reply.body.size()));
  asio::write(socket, asio::buffer(text), failed);
  if (reply.silent) {
    {
      const std::lock_guard lock(mutex_);
      silent_ = true;
    }
    changed_.notify_all();
    char byte = 0;
    asio::read(socket, asio::buffer(&byte, 1), failed); // until the client goes
  }
  socket.shutdown(tcp::socket::shutdown_both, failed);
}

} // namespace paceline::testing
