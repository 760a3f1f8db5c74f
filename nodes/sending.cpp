#include "nodes/sending.hpp"

#include "models/checkpoint/digest.hpp"
#include "models/checkpoint/files.hpp"
#include "models/identity.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>
#include <vector>

namespace paceline::nodes {

using namespace messages;

namespace {

/// The files to be sent. Threads: one after the other.
struct Luggage {
  SendModel announced;
  std::vector<models::MappedFile> files;
  std::uint64_t bytes = 0;   ///< Bytes of all files.
  std::uint64_t arrived = 0; ///< Most bytes that have ever arrived.
};

/// Returns the hash of a file. Its pages are dropped from memory afterwards, since they are the
/// file's.
std::string hash_of(const models::MappedFile& file) {
  models::Digest digest;
  const std::string_view all = file.text();
  for (std::size_t at = 0; at < all.size(); at += limits::model_part_bytes) {
    const auto part = all.substr(at, limits::model_part_bytes);
    digest.add(part);
    models::release_pages(file.bytes().subspan(at, part.size()));
  }
  return digest.hex();
}

Result<Luggage> pack(const std::string& location, const std::string& identity) {
  const auto paths = models::checkpoint_files(location);
  if (!paths)
    return tl::unexpected(paths.error());
  Luggage luggage;
  luggage.announced.identity = identity;
  for (const std::string& path : *paths) {
    auto file = models::MappedFile::open(path);
    if (!file)
      return tl::unexpected(file.error());
    luggage.announced.files.push_back(
        {std::filesystem::path(path).filename().string(), file->bytes().size(), hash_of(*file)});
    luggage.bytes += file->bytes().size();
    luggage.files.push_back(std::move(*file));
  }
  return luggage;
}

/// The part of one connection in the sending. Threads: the query's actor.
class Sending {
public:
  struct Done {};
  Sending(Luggage& luggage, std::shared_ptr<NodeQuery<Done>> node)
      : luggage_(luggage), node_(std::move(node)) {}

  void begin(const ModelWanted& wanted) {
    node_->hear();
    const auto fits = [](std::uint64_t has, const ModelFile& file) { return has <= file.size; };
    if (begun_ || !std::ranges::equal(wanted.present, luggage_.announced.files, fits))
      return node_->end(fail(ErrorCode::unavailable, "the node wants files that nobody offered"));
    begun_ = true;
    present_ = wanted.present;
    count();
    for (int i = 0; i < limits::model_parts_in_flight; ++i)
      send();
  }
  void taken() {
    node_->hear();
    count();
    if (begun_)
      send();
  }
  void stored() {
    luggage_.arrived = luggage_.bytes;
    node_->end(Done{});
  }

private:
  /// Sends the next part; nothing when all are under way.
  void send() {
    const auto& files = luggage_.announced.files;
    while (file_ < files.size() && present_[file_] == files[file_].size)
      ++file_;
    if (file_ == files.size())
      return;
    const models::MappedFile& from = luggage_.files[file_];
    const std::uint64_t at = present_[file_];
    const std::string_view part = from.text().substr(at, limits::model_part_bytes);
    node_->say(ModelPart{std::uint32_t(file_), at, std::string(part)});
    models::release_pages(from.bytes().subspan(at, part.size()));
    present_[file_] += part.size();
  }
  void count() {
    const std::uint64_t sent = std::accumulate(present_.begin(), present_.end(), std::uint64_t(0));
    constexpr std::uint64_t under_way = limits::model_part_bytes * limits::model_parts_in_flight;
    luggage_.arrived = std::max(luggage_.arrived, sent - std::min(sent, under_way));
    node_->reach(double(sent) / double(luggage_.bytes));
  }

  Luggage& luggage_;
  std::shared_ptr<NodeQuery<Done>> node_;
  bool begun_ = false;
  std::size_t file_ = 0;
  std::vector<std::uint64_t> present_; ///< Bytes of each file that have arrived or are under way.
};

Result<Sending::Done> send_once(caf::actor_system& system, const NodeAddress& address,
                                const NodeTls& tls, Luggage& luggage, const Progress& progress) {
  return query<Sending::Done>(
      system, address, tls,
      [&luggage](const auto& node) -> caf::message_handler {
        const auto sending = std::make_shared<Sending>(luggage, node);
        node->say(Survey{}); // This is the introduction, before which a peer may send only little.
        node->say(luggage.announced);
        return {[node](const Surveyed&) { node->hear(); },
                [sending](const ModelWanted& wanted) { sending->begin(wanted); },
                [sending](const ModelTaken&) { sending->taken(); },
                [sending](const ModelStored&) { sending->stored(); }};
      },
      progress);
}

} // namespace

Result<void> send_model(caf::actor_system& system, const NodeAddress& address, const NodeTls& tls,
                        const std::string& location, const std::string& identity,
                        const Progress& progress) {
  auto luggage = pack(location, identity);
  if (!luggage)
    return tl::unexpected(luggage.error());
  for (int failures = 0;;) {
    const std::uint64_t before = luggage->arrived;
    const auto sent = send_once(system, address, tls, *luggage, progress);
    if (sent)
      return {};
    const ErrorCode why = sent.error().code;
    if (why == ErrorCode::overloaded) // Another engine sends it; one that stops is cut off.
      return tl::unexpected(sent.error());
    failures = luggage->arrived > before ? 1 : failures + 1;
    const bool cut = why == ErrorCode::unavailable || why == ErrorCode::corrupt;
    if (!cut || failures == limits::sending_attempts_max)
      return tl::unexpected(sent.error());
    std::this_thread::sleep_for(limits::sending_pause * failures);
  }
}

} // namespace paceline::nodes
